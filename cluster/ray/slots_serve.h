// SPDX-License-Identifier: Apache-2.0
// `hvdray serve` where the hosts are slots of a Ray cluster: RaySlots asks a broker for them, and a
// ServeSession runs gangs on those that have come. Until then, the client is watched: one that has
// gone ends the wait, so that no slots are held for nobody.
#ifndef HVDRAY_CLUSTER_RAY_SLOTS_SERVE_H_
#define HVDRAY_CLUSTER_RAY_SLOTS_SERVE_H_

#include "base/fd.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"

namespace hvdray {

/// `hvdray serve` on slots of Ray, for a client inside the cluster. `plan`: as BeginPlan() makes
/// it, with the spec; `broker`: the socket to what reserves slots. Blocks until the job has ended.
/// Returns the exit code.
int ServeOnSlots(LaunchPlan plan, ServeOptions options, UniqueFd broker);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_SLOTS_SERVE_H_
