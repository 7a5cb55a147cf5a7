// SPDX-License-Identifier: Apache-2.0
// `hvdray run --ray`: from a resolved spec to a job on Ray, followed to its end or left alone.
#ifndef HVDRAY_CMD_RAY_RUN_H_
#define HVDRAY_CMD_RAY_RUN_H_

#include "launcher/engine/launcher.h"

namespace hvdray {

/// `plan`: as BeginPlan() makes it, with the spec. Nothing is submitted before version, room and
/// package are known to be fine. Returns the exit code.
int RunOnRay(const LaunchPlan& plan);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_RUN_H_
