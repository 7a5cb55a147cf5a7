// SPDX-License-Identifier: Apache-2.0
// `hvdray stop`: asks Ray to stop jobs and waits until they have ended. What to ask next is decided
// in ray_stop_plan.h; here are the calls, the pace and the user's signals. The first Ctrl-C says
// what is waited for; a second one leaves the jobs to end alone.
#ifndef HVDRAY_CLUSTER_RAY_RAY_STOP_H_
#define HVDRAY_CLUSTER_RAY_RAY_STOP_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/ray/dashboard_client.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Asks Ray to stop the jobs `ids`, or all if there are none, and waits for their end, --timeout of
/// `request` at most. A signal ends the wait. Returns an exit code. Blocks. Errors: those of the
/// client, and of the plan in ray_stop_plan.h.
Result<int> StopRayJobs(const CommandRequest& request, RayAccess ray, std::vector<std::string> ids);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_STOP_H_
