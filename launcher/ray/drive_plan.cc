#include "launcher/ray/drive_plan.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "wire/package_layout.h"

namespace hvdray {
namespace {

/// What Ray may need to make a runtime environment before it starts an agent; by its own default
/// ten minutes.
Duration SetupLimit(const std::string& runtime_env) {
  if (runtime_env.empty()) return Duration::zero();
  constexpr int64_t kDefault = 600;
  constexpr int64_t kLongest = 86'400;
  const Result<Json> env = ParseJson(runtime_env);
  const auto config = env.ok() && env->is_object() ? env->find("config") : env->end();
  if (!env.ok() || config == env->end() || !config->is_object()) {
    return std::chrono::seconds(kDefault);
  }
  const Result<int64_t> limit = JsonInt(*config, "setup_timeout_seconds", kDefault, -1, kLongest);
  if (!limit.ok()) return std::chrono::seconds(kDefault);
  return std::chrono::seconds(*limit < 0 ? kLongest : *limit);
}

wire::GpuVisibility VisibilityOf(const RaySpec& ray) {
  if (ray.slot_gpus() <= 0) return wire::GpuVisibility::kInherited;
  return *ray.gpu_choice == GpuChoice::kRank ? wire::GpuVisibility::kRank
                                             : wire::GpuVisibility::kHost;
}

/// Of hosts at these addresses.
HostSpread SpreadOf(const std::vector<std::string>& ips) {
  const std::set<std::string> different(ips.begin(), ips.end());
  return different.size() <= 1 ? HostSpread::kOneMachine : HostSpread::kManyMachines;
}

}  // namespace

std::string DriveFile(std::string_view folder, std::string_view job_id, std::string_view suffix) {
  return fmt::format("{}/hvdray_{}.{}", folder, job_id, suffix);
}

JobSpec DriveSpec(const RayJobFile& job, std::string_view folder) {
  JobSpec spec = job.spec;
  const auto move_file = [&](Setting<std::string>& file, std::string_view suffix) {
    if (!file->empty()) file.Set(DriveFile(folder, job.job_id, suffix), file.origin());
  };
  move_file(spec.report_file, "report.json");
  move_file(spec.events_file, "events.jsonl");
  move_file(spec.trace_file, "trace.json");
  move_file(spec.junit_file, "junit.xml");
  move_file(spec.record_file, "record");
  // The client makes them of the stream.
  spec.output_folder.Set("", "driver on Ray");
  const bool has_files = !spec.ray.working_dir->empty() && !spec.ray.is_folder_remote();
  if (has_files && !spec.working_folder->starts_with('/')) {
    const std::string& below = *spec.working_folder;
    spec.working_folder.Set(kPackageFilesFolder + (below.empty() ? std::string() : "/" + below),
                            spec.working_folder.origin());
  }
  // The driver's own is the pipe to ray_driver.py.
  spec.stdin_rank.Set(std::nullopt, "driver on Ray");
  spec.start_timeout.Set(*spec.start_timeout + SetupLimit(*spec.ray.runtime_env),
                         spec.start_timeout.origin());
  return spec;
}

LaunchPlan DrivePlan(const RayJobFile& job, JobSpec spec) {
  LaunchPlan plan;
  plan.spec = std::move(spec);
  plan.environment = job.environment;
  plan.job_id = job.job_id;
  plan.build = job.build;
  plan.spread = HostSpread::kManyMachines;
  // No current_folder: the agents' own is the job's package.
  plan.place.is_on_own_environment = true;
  plan.place.gpu_visibility = VisibilityOf(plan.spec.ray);
  return plan;
}

Status PlaceStatic(const RayPlacement& placement, LaunchPlan* plan) {
  plan->hosts = placement.hosts;
  plan->is_remote.assign(placement.hosts.size(), true);
  // As horovod.ray has it.
  plan->place.worker_host_names = placement.node_ids;
  plan->spread = SpreadOf(placement.ips);
  HVDRAY_ASSIGN_OR_RETURN(plan->ranks, AssignRanks(plan->hosts, *plan->spec.np, *plan->spec.np));
  return {};
}

}  // namespace hvdray
