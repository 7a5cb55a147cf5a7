// SPDX-License-Identifier: Apache-2.0
#ifndef HVDRAY_CLUSTER_RAY_RAY_FOLLOW_H_
#define HVDRAY_CLUSTER_RAY_RAY_FOLLOW_H_

#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Follows a job of hvdray, which runs on without its client, from its first line of output.
/// Returns an exit code. Blocks.
int FollowOnRay(CommandRequest& request);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_FOLLOW_H_
