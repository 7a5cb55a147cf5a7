// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_follow.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/text.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_attach.h"
#include "cluster/ray/ray_run.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/job_files.h"

namespace hvdray {
namespace {

Status CheckOurs(const RayAccess& access, const std::string& id) {
  DashboardClient client(access.Copy());
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<RayJob> job, client.GetJob(id));
  const std::string hint = "hvdray run --ray --detach prints the job's name";
  if (!job) {
    return {ErrorCode::kUsage, fmt::format("{}: no job {}", access.address.Shown(), ShownText(id)),
            hint};
  }
  if (job->metadata.contains("hvdray_job_id")) return {};
  return {ErrorCode::kUsage,
          fmt::format("{}: job {} is not one of hvdray's", access.address.Shown(), ShownText(id)),
          hint};
}

}  // namespace

int FollowOnRay(CommandRequest& request) {
  const std::string& id = request.arguments.front();
  JobSpec& spec = request.spec;
  spec.ray.is_wanted.Set(true, "hvdray follow");
  HeadLink link;
  Result<RayAccess> access = FindRay("follow", spec, link);
  if (!access.ok()) return Fail("follow", access.status());
  if (const Status status = CheckOurs(*access, id); !status.ok()) return Fail("follow", status);
  const std::vector<RayWantedFile> files = WantedFiles(spec);
  Status writable = CheckDistinctFiles(spec, Environment::FromProcess());
  if (writable.ok()) writable = CheckWantedFiles(files);
  if (writable.ok()) writable = CheckOutputDirectory(*spec.output_filename, /*np=*/0);
  if (!writable.ok()) return Fail("follow", writable);
  const std::string url = access->address.Url();
  return AttachToRayJob({.command = "follow",
                         .access = std::move(access).value(),
                         .plan = {.id = id,
                                  .how_to_follow = JobCommand("follow", spec, url, id),
                                  .how_to_read = JobCommand("logs", spec, url, id),
                                  .on_signal = FollowPlan::OnSignal::kLeavesJob,
                                  .is_quiet = *spec.is_quiet},
                         .likely_node = "",
                         .files = files,
                         .output_directory = *spec.output_filename});
}

}  // namespace hvdray
