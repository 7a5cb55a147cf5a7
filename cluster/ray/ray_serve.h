// SPDX-License-Identifier: Apache-2.0
// `hvdray serve --ray-address`: one gang of a client, as a job that Ray's Jobs API starts. What the
// client says goes into the job's package, and the answers come back with the job's stream.
// docs/serve.md, "As a job on Ray".
#ifndef HVDRAY_CLUSTER_RAY_RAY_SERVE_H_
#define HVDRAY_CLUSTER_RAY_RAY_SERVE_H_

#include "cluster/ray/ray_access.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"

namespace hvdray {

/// `plan`: as BeginPlan() makes it, with the spec; `options`: with a socket. Blocks until the job
/// has ended. Returns the exit code.
int ServeOnRayJob(LaunchPlan plan, ServeOptions options, const HeadLink& link);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_SERVE_H_
