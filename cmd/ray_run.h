// SPDX-License-Identifier: Apache-2.0
// `hvdray run --ray`: from a resolved spec to a job on Ray, followed to its end or left alone.
#ifndef HVDRAY_CMD_RAY_RUN_H_
#define HVDRAY_CMD_RAY_RUN_H_

#include <string>
#include <vector>

#include "cmd/ray_access.h"
#include "launcher/engine/launcher.h"
#include "launcher/ray/ray_attach.h"

namespace hvdray {

/// `plan`: as BeginPlan() makes it, with the spec. Submits nothing before it has checked version,
/// room and package. Returns the exit code.
int RunOnRay(const LaunchPlan& plan, const HeadLink& link);

// Shared with `hvdray follow`.

/// The reports to fetch: --report, --events, --junit, --trace, --record.
std::vector<RayWantedFile> WantedFilesOf(const JobSpec& spec);

/// "hvdray follow ID --ray-address URL": the command that follows the job from here. `url`: of the
/// dashboard that `spec` led to.
std::string FollowHint(const JobSpec& spec, const std::string& url, const std::string& id);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_RUN_H_
