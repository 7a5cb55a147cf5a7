// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_cluster.h"

#include <fmt/format.h>
#include <limits.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/digest.h"
#include "base/environ.h"
#include "base/file.h"
#include "base/log.h"
#include "base/scratch_directory.h"
#include "base/text.h"
#include "cluster/cloud/cloud_hosts.h"
#include "cluster/ssh/ssh_target.h"
#include "cluster/up/bootstrap_config.h"
#include "cluster/up/cluster_report.h"
#include "cluster/up/lease.h"
#include "cluster/up/managed_cluster.h"
#include "cluster/up/managed_run.h"
#include "cluster/up/node_files.h"
#include "cluster/up/node_steps.h"
#include "cluster/up/up_driver.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/option_layers.h"
#include "launcher/plan/log_options.h"

namespace hvdray {
namespace {

constexpr size_t kTokenBytes = 32;
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

/// Without what only the cluster and its machines tell. Errors: kUsage.
Result<UpPolicy> ToUpPolicy(const CommandRequest& request) {
  UpPolicy policy;
  policy.is_dry_run = request.Has(OptionId::kDryRun);
  policy.is_confirmed = request.Has(OptionId::kYes);
  policy.is_restart_only = request.Has(OptionId::kRestartOnly);
  policy.is_no_restart = request.Has(OptionId::kNoRestart);
  policy.is_setup_forced = request.Has(OptionId::kForceSetup);
  if (policy.is_restart_only && policy.is_no_restart) {
    return Status(ErrorCode::kUsage, "--restart-only and --no-restart exclude each other");
  }
  if (policy.is_restart_only && policy.is_setup_forced) {
    return Status(ErrorCode::kUsage, "--restart-only and --force-setup exclude each other");
  }
  policy.who = WhoWeAre();
  policy.wall_time = SecondsSince1970();
  if (const RawOption* lease = request.said.Find(OptionId::kLease)) {
    HVDRAY_ASSIGN_OR_RETURN(const Duration length, ToDuration(OptionId::kLease, *lease));
    policy.lease = length == Duration::zero() ? 0 : LeaseEnd(policy.wall_time, length);
  }
  return policy;
}

// ---- machines of a cloud

/// "i-1, i-2"; those that could not be had have no id.
std::string IdsText(const ManagedCluster& cluster) {
  std::vector<std::string> ids;
  for (const Machine& machine : cluster.machines) {
    if (machine.why.ok()) ids.push_back(machine.node.id);
  }
  return fmt::format("{}", fmt::join(ids, ", "));
}

void TellThatMachinesStay(const ManagedCluster& cluster) {
  Tell(LogLevel::kWarning, "hvdray up",
       fmt::format("{0} run on: hvdray up {1} goes on with them, hvdray down {1} ends them",
                   cluster.machines.empty() ? "machines that were made" : IdsText(cluster),
                   cluster.words));
}

/// Tells `why` and ends the command, with its exit code. Nothing, or with a cloud perhaps machines,
/// were made.
int EndWith(const ManagedCluster& cluster, const Status& why) {
  int exit_code = Fail("up", why);
  if (!cluster.machines.empty()) {
    TellThatMachinesStay(cluster);
    exit_code = kHvdrayFailed;
  }
  return FinishReport(cluster, {.exit_code = exit_code, .failure = why});
}

/// Gets or, for --dry-run, only looks at the machines, and makes hosts of them. nullopt: go on with
/// these; otherwise the command is over, with this exit code.
std::optional<int> TakeMachines(ManagedCluster& cluster, UpPolicy& policy) {
  const auto plan = std::make_shared<MachinePlan>();
  const auto fail = [&cluster](const Status& why, bool is_any_made) {
    const int signo = cluster.work->signo();
    if (signo == 0) return EndWith(cluster, why);
    Tell(LogLevel::kError, "hvdray up",
         is_any_made ? "interrupted" : "interrupted; nothing was changed");
    if (is_any_made) TellThatMachinesStay(cluster);
    return FinishReport(cluster, {.signo = signo});
  };
  Status status = cluster.work->Run([plan](CloudWork::Cloud& cloud) -> Status {
    HVDRAY_ASSIGN_OR_RETURN(*plan, cloud.machines->Plan());
    return {};
  });
  if (!status.ok()) return fail(status, false);
  for (const std::string& warning : plan->warnings) Tell(LogLevel::kWarning, "hvdray up", warning);
  for (const std::string& line : plan->Lines()) SayLine(line);
  const auto machines = std::make_shared<std::vector<Machine>>();
  if (policy.is_dry_run) {
    for (const MachineGroup& group : plan->groups) {
      for (const CloudNode& node : group.kept) {
        if (node.state == CloudState::kRunning) machines->push_back({.node = node});
      }
    }
    const bool has_head = !machines->empty() && plan->groups.front().missing() == 0;
    if (!has_head || plan->has_changes()) return FinishReport(cluster, {});
  } else {
    if (plan->has_changes() && !policy.is_confirmed) {
      bool is_yes = false;
      status = cluster.work->Ask(
          fmt::format("Do this to cluster {}? [y/N] ", cluster.file.cluster_name), &is_yes);
      if (!status.ok()) return fail(status, false);
      if (!is_yes) {
        SayLine("nothing was changed");
        return FinishReport(cluster, {.exit_code = kNothingDone});
      }
      policy.is_confirmed = true;
    }
    // First, so that no machine has an earlier end in its tags than in its record.
    ProviderTags tags;
    if (policy.lease) tags.emplace(kTagLease, FormatLeaseEnd(*policy.lease));
    status = cluster.work->Run([machines, tags](CloudWork::Cloud& cloud) -> Status {
      HVDRAY_ASSIGN_OR_RETURN(*machines, cloud.machines->Make(tags));
      return {};
    });
    if (!status.ok()) return fail(status, true);
  }
  // Those that could not be had are told at the end; they are no hosts.
  std::stable_partition(machines->begin(), machines->end(),
                        [](const Machine& machine) { return machine.why.ok(); });
  cluster.machines = std::move(*machines);
  for (const Machine& machine : cluster.machines) {
    if (!machine.why.ok()) break;
    AddHost(cluster, CloudHost(cluster.file, machine.node, 1));
  }
  const std::string& key = cluster.work->cloud().machines->prepared().private_key_path;
  if (!key.empty() && cluster.spec.ssh_identity_file->empty()) {
    cluster.spec.ssh_identity_file.Set(key, cluster.path);
  }
  return std::nullopt;
}

/// Tells Ray's own tools how the set-up of each machine ended, and `down --expired` until when it
/// may run.
void TagMachines(ManagedCluster& cluster, const std::vector<NodeRow>& rows, int64_t lease) {
  const auto ids = std::make_shared<std::map<ProviderTags, std::vector<std::string>>>();
  for (size_t i = 0; i < rows.size() && i < cluster.hosts.size(); ++i) {
    const CloudNode& node = cluster.machines[i].node;
    const std::string status = rows[i].state == Name(UpState::kUp) ? "up-to-date" : "update-failed";
    ProviderTags tags;
    if (node.status != status) tags.emplace(kTagStatus, status);
    const auto has = node.tags.find(std::string(kTagLease));
    // Also where it has one that nobody keeps any more.
    if (has == node.tags.end() ? lease != 0 : has->second != FormatLeaseEnd(lease)) {
      tags.emplace(kTagLease, FormatLeaseEnd(lease));
    }
    if (!tags.empty()) (*ids)[tags].push_back(node.id);
  }
  const Status status = cluster.work->Run([ids](CloudWork::Cloud& cloud) -> Status {
    for (const auto& [tags, group] : *ids) {
      HVDRAY_RETURN_IF_ERROR(cloud.provider->SetTags(group, tags));
    }
    return {};
  });
  if (!status.ok()) Tell(LogLevel::kWarning, "hvdray up", "tag the machines: " + status.message());
}

// ---- files and steps

/// Empty: its nodes have no container.
std::string ContainerMounts(const ClusterSpec& file) {
  return file.docker.container_name.empty() ? std::string() : HostMounts(file.cluster_name);
}

UpNode PlanNode(const ManagedCluster& cluster, const NodeFiles& files, size_t index) {
  const ClusterSpec& file = cluster.file;
  const bool is_head = index == 0;
  const CloudNode* machine = cluster.work ? &cluster.machines[index].node : nullptr;
  StepFacts facts;
  facts.files_hash = files.mounts_hash;
  if (is_head) facts.bootstrap_hash = files.bootstrap_hash;
  if (!is_head) facts.head = cluster.head;
  facts.host_mounts = ContainerMounts(file);
  UpNode node;
  if (machine != nullptr) {
    facts.exports = RayExports(file, cluster.work->cloud().machines->prepared(), *machine);
    node.boot = cluster.machines[index].boot;
  }
  const auto kind = is_head ? ClusterNodeKind::kHead : ClusterNodeKind::kWorker;
  const ClusterNodeSetup setup =
      ToClusterNodeSetup(file, kind, machine == nullptr ? "" : machine->node_type);
  if (index == 1 && !setup.cluster_synced_files.empty()) {
    Tell(LogLevel::kWarning, "hvdray up",
         "cluster_synced_files are not copied: name them in file_mounts");
  }
  node.address = cluster.hosts[index].host;
  node.steps = StepsOf(setup, facts);
  node.exports = std::move(facts.exports);
  return node;
}

/// The file mounts, which are the same for all nodes. Needs no machine. `scratch`: a directory for
/// files that are made.
Result<NodeFiles> PlanFiles(const ManagedCluster& cluster, const std::string& scratch) {
  const ClusterNodeSetup setup = ToClusterNodeSetup(cluster.file, ClusterNodeKind::kHead, "");
  NodeFiles files;
  HVDRAY_ASSIGN_OR_RETURN(files.mounts,
                          PlanMounts(setup, cluster.home, scratch, ContainerMounts(cluster.file)));
  HVDRAY_ASSIGN_OR_RETURN(files.mounts_hash, HashFiles(files.mounts));
  return files;
}

/// Adds the files of the head's autoscaler, if there is one.
Status AddBootstrap(const ManagedCluster& cluster, const std::string& scratch, NodeFiles& files) {
  if (cluster.work == nullptr || !IsAutoscaled(cluster.file)) return {};
  const PreparedCluster& prepared = cluster.work->cloud().machines->prepared();
  constexpr mode_t kSecret = 0600;
  const std::string directory = scratch + "/bootstrap";
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (!error) {
    std::filesystem::permissions(directory, std::filesystem::perms::owner_all, error);
  }
  if (error) return ErrnoStatus(directory, error.value()).WithCode(ErrorCode::kFileUnwritable);
  const std::string config = BootstrapConfig(cluster.file, prepared);
  HVDRAY_RETURN_IF_ERROR(
      WriteFileAtomically(fmt::format("{}/{}", directory, kBootstrapConfigName), config, kSecret));
  if (!prepared.private_key_path.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(const std::string key, ReadFile(prepared.private_key_path));
    HVDRAY_RETURN_IF_ERROR(
        WriteFileAtomically(fmt::format("{}/{}", directory, kBootstrapKeyName), key, kSecret));
  }
  HVDRAY_ASSIGN_OR_RETURN(SyncedDirectory made, PlanDirectory(directory, ""));
  files.bootstrap.push_back(std::move(made));
  HVDRAY_ASSIGN_OR_RETURN(files.bootstrap_hash, HashFiles(files.bootstrap));
  return {};
}

/// All nodes with their steps, and those that have no machine.
std::vector<UpNode> PlanNodes(const ManagedCluster& cluster, const NodeFiles& files) {
  std::vector<UpNode> nodes;
  for (size_t i = 0; i < cluster.hosts.size(); ++i) nodes.push_back(PlanNode(cluster, files, i));
  for (size_t i = cluster.hosts.size(); i < cluster.machines.size(); ++i) {
    const Machine& lacking = cluster.machines[i];
    UpNode& node = nodes.emplace_back();
    node.address = lacking.node.id.empty() ? lacking.node.node_type : lacking.node.id;
    node.why = lacking.why;
  }
  return nodes;
}

// ---- the whole

int Up(UpPolicy policy, ManagedCluster& cluster) {
  const bool is_dry_run = policy.is_dry_run;
  policy.cluster = cluster.file.cluster_name;
  policy.command = "hvdray up " + cluster.words;
  policy.is_exclusive = policy.is_powered_off = cluster.work != nullptr;
  policy.log_in_limit = cluster.log_in_limit;
  const Result<ScratchDirectory> scratch = ScratchDirectory::Make("hvdray-up.");
  if (!scratch.ok()) return Fail("up", scratch.status());
  // Before any machine is made: a file that is not there is a mistake in the cluster file.
  Result<NodeFiles> files = PlanFiles(cluster, scratch->path());
  if (!files.ok()) return EndWith(cluster, std::move(files).status().WithContext(cluster.path));
  if (cluster.work) {
    if (const auto code = TakeMachines(cluster, policy)) return *code;
  }
  policy.head = cluster.head;
  Status added = AddBootstrap(cluster, scratch->path(), *files);
  if (!added.ok()) return EndWith(cluster, std::move(added).WithContext(cluster.path));
  UpDriver driver(std::move(policy), PlanNodes(cluster, *files), Hex(RandomBytes(kTokenBytes)));
  const Result<ClusterEnd> end = RunCluster(cluster, driver, *files);
  if (!end.ok()) return EndWith(cluster, end.status());
  if (cluster.work && end->exit_code != 0) TellThatMachinesStay(cluster);
  const bool has_table = driver.is_working() || (end->signo == 0 && end->exit_code != 0);
  if (end->is_stdout_gone || !has_table) return end->exit_code;
  if (cluster.work && end->signo == 0 && !is_dry_run) {
    TagMachines(cluster, end->nodes, driver.lease());
  }
  std::string text = RowsText(end->nodes);
  if (end->exit_code == 0)
    text += EndText(cluster, end->nodes.size() - 1, driver.lease(), driver.head_survey());
  return PrintOut("up", text, end->exit_code);
}

}  // namespace

int UpCluster(const CommandRequest& request, ClusterSpec file, TimePoint began) {
  Result<UpPolicy> policy = ToUpPolicy(request);
  if (!policy.ok()) return Fail("up", policy.status());
  const Duration log_in_limit = file.is_local() ? policy->log_in_limit : kCloudLogIn;
  Result<ManagedCluster> cluster =
      OpenManagedCluster("up", request, std::move(file), log_in_limit, began);
  if (!cluster.ok()) return Fail("up", cluster.status());
  SetUpLog(cluster->spec);
  return Up(std::move(policy).value(), *cluster);
}

}  // namespace hvdray
