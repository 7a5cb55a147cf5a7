// SPDX-License-Identifier: Apache-2.0
// `hvdray run --ray`: from a resolved spec to a job on Ray, followed to its end or left alone.
#ifndef HVDRAY_CLUSTER_RAY_RAY_RUN_H_
#define HVDRAY_CLUSTER_RAY_RAY_RUN_H_

#include <string>
#include <string_view>
#include <vector>

#include "cluster/ray/job_package.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_attach.h"
#include "cluster/ray/ray_submit.h"
#include "launcher/engine/launcher.h"

namespace hvdray {

/// `plan`: as BeginPlan() makes it, with the spec. Submits nothing before it has checked version,
/// room and package. Returns the exit code.
int RunOnRay(const LaunchPlan& plan, const HeadLink& link);

// Shared with `hvdray serve --ray-address`.

/// A job on Ray that may be submitted: the cluster could hold it.
struct RayJobPlan {
  PackagePlan package;
  RayModules modules;
  RayAccess access;
  RayOutlook outlook;
};

/// Reads and hashes what goes into the packages, and queries the cluster; submits nothing. `plan`:
/// as BeginPlan() makes it, with the spec. Blocks. Errors: those of PlanPackage(), PlanModules(),
/// ResolveRayAccess() and LookAhead().
Result<RayJobPlan> PlanRayJob(std::string_view command, const LaunchPlan& plan,
                              const HeadLink& link);

/// Sends packages and job. Returns how to follow it, as the job's own client, which holds back
/// signals: from here on they stop the job. `control`: as in MakeSubmission(). Blocks. Errors: as
/// SendPackage(), SendModules(), Submit(); there is no job then.
Result<RayAttachOptions> SubmitRayJob(std::string_view command, const LaunchPlan& plan,
                                      const RayJobPlan& job, const std::string& control = {});

/// Creates or empties all files that the client of the job writes here. Errors: kFileUnwritable.
Status CheckFilesOfRayJob(const JobSpec& spec);

// Shared with `hvdray follow`.

/// The reports to fetch: --report, --events, --junit, --trace, --record.
std::vector<RayWantedFile> WantedFiles(const JobSpec& spec);

/// "hvdray follow ID --ray-address URL": how `command`, follow or logs, finds the job from here.
/// `url`: of the dashboard that `spec` led to.
std::string JobCommand(std::string_view command, const JobSpec& spec, const std::string& url,
                       const std::string& id);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_RUN_H_
