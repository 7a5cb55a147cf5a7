// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/launch_plan.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/exec.h"
#include "base/log.h"
#include "cluster/transport/this_machine.h"
#include "launcher/engine/discovery_script.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/job/exec_limits.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/value_text.h"
#include "launcher/plan/build_name.h"
#include "launcher/plan/builtin_horovod.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"

namespace hvdray {
namespace {

std::string MakeJobId() {
  std::array<unsigned char, 4> random{};
  (void)!::getrandom(random.data(), random.size(), 0);
  const auto now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  tm utc{};
  ::gmtime_r(&now, &utc);
  return fmt::format("hvd-{:04d}{:02d}{:02d}-{:02d}{:02d}{:02d}-{:02x}{:02x}{:02x}{:02x}",
                     utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min,
                     utc.tm_sec, random[0], random[1], random[2], random[3]);
}

/// Sets is_remote and spread from plan.hosts.
void FindWays(LaunchPlan& plan) {
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) names.push_back(host.dial_name());
  const std::vector<bool> is_this = AreThisMachine(names, LookupOf(plan.spec));
  for (size_t i = 0; i < names.size(); ++i) {
    const HostWay way = WayTo(plan.hosts[i], is_this[i], plan.spec);
    plan.is_remote.push_back(way.is_remote);
    if (way.is_elsewhere) plan.spread = HostSpread::kManyMachines;
  }
  // A worker keeps its network interface for life, so hosts that may come later count, too.
  if (plan.spec.may_learn_hosts()) plan.spread = HostSpread::kManyMachines;
}

/// 0, or the errno that keeps workers from starting in it.
int ErrorOfDirectory(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno;
  if (!S_ISDIR(facts.st_mode)) return ENOTDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

LaunchPlan BeginPlan(TimePoint began) {
  LaunchPlan plan;
  plan.environment = Environment::FromProcess();
  plan.began = began;
  plan.began_wall = std::chrono::system_clock::now();
  std::error_code no_directory;  // it may have been removed: see CheckCurrentDirectory()
  plan.current_directory = std::filesystem::current_path(no_directory).string();
  plan.job_id = MakeJobId();
  plan.build = BuildName();
  return plan;
}

Status CheckCurrentDirectory(const LaunchPlan& plan) {
  if (!plan.current_directory.empty()) return {};
  return {ErrorCode::kUsage, "the current directory has been removed",
          "cd to a directory that exists; cd . is enough if it was made anew"};
}

Status CheckOptionsOfRun(const JobSpec& spec) {
  if (!spec.host_discovery_script->empty()) {
    Status status = CheckDiscoveryCommand(*spec.host_discovery_script);
    if (!status.ok()) return std::move(status).WithContext(spec.host_discovery_script.origin());
  }
  if (spec.is_elastic()) HVDRAY_RETURN_IF_ERROR(CheckElasticPolicy(ToElasticPolicy(spec, {})));
  return CheckHostAccess(spec);
}

Status Place(LaunchPlan& plan) {
  const JobSpec& spec = plan.spec;
  const std::optional<int> most = spec.is_elastic() ? *spec.max_np : *spec.np;
  Result<std::vector<RankInfo>> all = AssignRanks(*spec.hosts, *spec.np, most);
  if (!all.ok()) {
    if (!spec.is_elastic()) return all.status();
    return {all.status().code(), all.status().message(),
            fmt::format("a job would wait {} s for more (--elastic-timeout)",
                        FormatSeconds(*spec.elastic_timeout))};
  }
  const auto is_used = [&all](const HostSlots& host) {
    return std::any_of(all->begin(), all->end(),
                       [&host](const RankInfo& rank) { return rank.host == host.host; });
  };
  std::copy_if(spec.hosts->begin(), spec.hosts->end(), std::back_inserter(plan.hosts), is_used);
  HVDRAY_ASSIGN_OR_RETURN(plan.ranks, AssignRanks(plan.hosts, *spec.np, most));
  FindWays(plan);
  return {};
}

Status CheckExec(const LaunchPlan& plan) {
  rlimit stack{};
  ::getrlimit(RLIMIT_STACK, &stack);
  return CheckExecLimits(*plan.spec.command,
                         WorkerEnvironment(plan.spec, plan.environment, /*is_local=*/true),
                         stack.rlim_cur);
}

namespace {

/// Before the host source of an elastic job has reported: the spread and, if spec.hosts is all that
/// it can ever learn, the hosts and whether they are remote. No ranks. Looks up names.
void PlaceElastic(LaunchPlan& plan) {
  if (!plan.spec.may_learn_hosts()) plan.hosts = *plan.spec.hosts;
  FindWays(plan);
}

/// --cwd must be usable, if a worker runs here. Errors: kUsage.
Status CheckDirectoryHere(const LaunchPlan& plan) {
  const Setting<std::string>& directory = plan.spec.working_directory;
  const bool is_any_here =
      std::find(plan.is_remote.begin(), plan.is_remote.end(), false) != plan.is_remote.end();
  if (directory->empty() || !is_any_here) return {};
  const int error = ErrorOfDirectory(*directory);
  if (error == 0) return {};
  return {ErrorCode::kUsage,
          fmt::format("{}: workers cannot start in '{}': {}", directory.origin(), *directory,
                      ::strerror(error)),
          error == ENOENT ? "create that directory, or omit --cwd: they start where hvdray does"
                          : "name another directory, or omit --cwd: they start where hvdray does"};
}

// Lists the directories of --sync before dialling any host.
Status PlanCopies(LaunchPlan& plan, std::string_view command) {
  const bool is_any_remote =
      plan.spec.may_learn_hosts() ||
      std::any_of(plan.is_remote.begin(), plan.is_remote.end(), [](bool remote) { return remote; });
  HVDRAY_ASSIGN_OR_RETURN(
      plan.synced,
      PlanSync(*plan.spec.sync, plan.environment,
               is_any_remote ? SyncScope::kList : SyncScope::kCheckOnly, plan.sync_rules));
  for (const SyncedDirectory& synced : plan.synced) {
    for (const std::string& warning : synced.listing.warnings) {
      Tell(LogLevel::kWarning, command, "--sync: " + warning);
    }
  }
  const std::string& directory =
      plan.spec.working_directory->empty() ? plan.current_directory : *plan.spec.working_directory;
  plan.worker_place = PlaceIn(plan.synced, ResolvedDirectory(directory));
  plan.directory_trustees = TrusteesOf(directory);
  return {};
}

}  // namespace

Status MakePlan(LaunchPlan& plan, std::string_view command, bool is_shown) {
  HVDRAY_RETURN_IF_ERROR(CheckOptionsOfRun(plan.spec));
  HVDRAY_RETURN_IF_ERROR(FindBuiltinHorovod(plan.spec, OwnPath(), plan.environment));
  if (is_shown) HVDRAY_RETURN_IF_ERROR(LearnHosts(plan.spec, &SayDiscovery));
  if (is_shown || !plan.spec.is_elastic()) {
    HVDRAY_RETURN_IF_ERROR(Place(plan));
  } else {
    PlaceElastic(plan);
  }
  HVDRAY_RETURN_IF_ERROR(CheckDirectoryHere(plan));
  HVDRAY_RETURN_IF_ERROR(CheckExec(plan));
  return PlanCopies(plan, command);
}

}  // namespace hvdray
