// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_cluster.h"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/environ.h"
#include "base/scratch_directory.h"
#include "base/text.h"
#include "cluster/ssh/ssh_target.h"
#include "cluster/up/cluster_report.h"
#include "cluster/up/lease.h"
#include "cluster/up/managed_cluster.h"
#include "cluster/up/managed_run.h"
#include "cluster/up/up_driver.h"
#include "cluster/up/up_machines.h"
#include "cluster/up/up_plan.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"
#include "launcher/plan/log_options.h"

namespace hvdray {
namespace {

constexpr size_t kTokenBytes = 32;
constexpr Duration kUpLogIn = std::chrono::seconds(60);
// Machines that are just made take their time to boot.
constexpr Duration kCloudLogIn = std::chrono::minutes(5);

/// A sentence after a blank; empty: nothing is known.
std::string DashboardText(const NodeSurvey& head) {
  if (head.has_no_dashboard) return " It has no dashboard, which status, logs and jobs need.";
  if (!head.dashboard) return {};
  const RayDashboard& at = *head.dashboard;
  if (at.IsOnLoopback()) {
    return fmt::format(" Its dashboard listens at port {} of the head alone.", at.port);
  }
  if (at.IsEverywhere()) {
    return fmt::format(" Its dashboard listens at port {} of the head, to other machines, too.",
                       at.port);
  }
  return fmt::format(" Its dashboard listens at {} port {}, to other machines, too.", at.host,
                     at.port);
}

std::string EndText(const ManagedCluster& cluster, size_t workers, int64_t lease,
                    const NodeSurvey& head_survey) {
  const std::string& head = cluster.hosts.front().dial_name();
  std::string text = fmt::format("\nCluster {}: head {}, {}. Its Ray requires a token.{}",
                                 cluster.file.cluster_name, head, Count(workers, "worker"),
                                 DashboardText(head_survey));
  if (IsAutoscaled(cluster.file)) {
    text += fmt::format(" Ray's autoscaler on the head starts the workers, at most {}.",
                        cluster.file.max_workers);
  }
  if (lease != 0) {
    text += fmt::format("\nIts lease ends at {}. Then each node ends {}.", LeaseText(lease),
                        cluster.work ? "its Ray and powers off" : "its Ray by itself");
  }
  return text + fmt::format(
                    "\n\nUseful commands:\n"
                    "  hvdray status {0}\n"
                    "  hvdray submit {0} train.py\n"
                    "  hvdray exec {0} 'ray status'\n"
                    "  hvdray attach {0}\n"
                    "  hvdray dashboard {0}\n"
                    "  hvdray down {0}\n",
                    cluster.words);
}

/// "ann@laptop, pid 7"
std::string WhoWeAre() {
  std::array<char, HOST_NAME_MAX + 1> host{};
  (void)::gethostname(host.data(), host.size() - 1);
  std::string user = CurrentSshUser(Environment::FromProcess()).name;
  if (user.empty()) user = std::to_string(::getuid());
  return fmt::format("{}@{}, pid {}", user, host.data(), ::getpid());
}

/// Without what only the machines tell. Errors: kUsage for an option's value.
Result<UpPolicy> PolicyOf(const CommandRequest& request, ManagedCluster& cluster) {
  UpPolicy policy;
  policy.cluster = cluster.file.cluster_name;
  policy.is_exclusive = cluster.work != nullptr;
  policy.command = "hvdray up " + cluster.words;
  policy.is_dry_run = request.Has(OptionId::kDryRun);
  policy.is_confirmed = request.Has(OptionId::kYes);
  policy.is_restart_only = request.Has(OptionId::kRestartOnly);
  policy.is_no_restart = request.Has(OptionId::kNoRestart);
  policy.is_setup_forced = request.Has(OptionId::kForceSetup);
  policy.log_in_limit = TakeLogInLimit(cluster.spec, cluster.work ? kCloudLogIn : kUpLogIn);
  policy.is_powered_off = cluster.work != nullptr;
  policy.who = WhoWeAre();
  policy.wall_time = SecondsSince1970();
  if (const RawOption* lease = request.said.Find(OptionId::kLease)) {
    HVDRAY_ASSIGN_OR_RETURN(const Duration length, ToDuration(OptionId::kLease, *lease));
    policy.lease = length == Duration::zero() ? 0 : LeaseEnd(policy.wall_time, length);
  }
  return policy;
}

Status CheckUpWords(const CommandRequest& request) {
  if (request.Has(OptionId::kRestartOnly) && request.Has(OptionId::kNoRestart)) {
    return {ErrorCode::kUsage, "--restart-only and --no-restart exclude each other"};
  }
  if (request.Has(OptionId::kRestartOnly) && request.Has(OptionId::kForceSetup)) {
    return {ErrorCode::kUsage, "--restart-only and --force-setup exclude each other"};
  }
  if (const RawOption* lease = request.said.Find(OptionId::kLease)) {
    HVDRAY_RETURN_IF_ERROR(ToDuration(OptionId::kLease, *lease).status());
  }
  return CheckConsent(request);
}

int Up(const CommandRequest& request, ManagedCluster& cluster) {
  Result<UpPolicy> policy = PolicyOf(request, cluster);
  if (!policy.ok()) return Fail("up", policy.status());
  const Result<ScratchDirectory> scratch = ScratchDirectory::Make("hvdray-up.");
  if (!scratch.ok()) return Fail("up", scratch.status());
  StepFacts facts;
  NodeFiles files;
  // Before any machine is made: a file that is not there is a mistake in the cluster file.
  Status status = PlanFiles(cluster, scratch->path(), facts, files);
  if (!status.ok()) return EndWith(cluster, std::move(status).WithContext(cluster.path));
  if (cluster.work) {
    if (const auto code = TakeMachines(request, cluster, *policy)) return *code;
  }
  policy->head = cluster.head;
  std::vector<UpNode> nodes;
  status = PlanNodes(cluster, scratch->path(), facts, nodes, files);
  if (!status.ok()) return EndWith(cluster, std::move(status).WithContext(cluster.path));
  UpDriver driver(std::move(policy).value(), std::move(nodes), Hex(RandomBytes(kTokenBytes)));
  const Result<ClusterEnd> end = RunCluster(cluster, driver, files);
  if (!end.ok()) return EndWith(cluster, end.status());
  if (cluster.work && end->exit_code != 0) TellThatMachinesStay(cluster);
  const bool has_table = driver.is_working() || (end->signo == 0 && end->exit_code != 0);
  if (end->is_stdout_gone || !has_table) return end->exit_code;
  if (cluster.work && end->signo == 0 && !request.Has(OptionId::kDryRun)) {
    TagMachines(cluster, end->nodes, driver.lease());
  }
  std::string text = RowsText(end->nodes);
  if (end->exit_code == 0)
    text += EndText(cluster, end->nodes.size() - 1, driver.lease(), driver.head_survey());
  return PrintOut("up", text, end->exit_code);
}

}  // namespace

int UpCluster(const CommandRequest& request, ClusterSpec file, TimePoint began) {
  if (const Status words = CheckUpWords(request); !words.ok()) return Fail("up", words);
  Result<ManagedCluster> cluster = OpenManagedCluster("up", request, std::move(file), began);
  if (!cluster.ok()) return Fail("up", cluster.status());
  SetUpLog(cluster->spec);
  return Up(request, *cluster);
}

}  // namespace hvdray
