// SPDX-License-Identifier: Apache-2.0
// `hvdray serve --ray-address`: one gang of a client, as a job that Ray's Jobs API starts. What the
// client says goes into the job's package, and the answers come back with the job's stream.
// docs/serve.md, "As a job on Ray".
#ifndef HVDRAY_LAUNCHER_RAY_RAY_SERVE_H_
#define HVDRAY_LAUNCHER_RAY_RAY_SERVE_H_

#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/ray/ray_access.h"

namespace hvdray {

/// `plan`: as BeginPlan() makes it, with the spec; `options`: with a socket. Blocks until the job
/// has ended. Returns the exit code.
int ServeOnRayJob(LaunchPlan plan, ServeOptions options, const HeadLink& link);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_SERVE_H_
