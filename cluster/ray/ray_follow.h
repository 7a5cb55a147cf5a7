// SPDX-License-Identifier: Apache-2.0
// `hvdray follow`: shows a job on Ray whose client has gone, from its first line of output, and
// writes the files that its options name. It changes nothing in the cluster: a signal ends the
// following and not the job. Jobs that are not hvdray's, and files that can't be written, are
// refused before anything is shown.
#ifndef HVDRAY_CLUSTER_RAY_RAY_FOLLOW_H_
#define HVDRAY_CLUSTER_RAY_RAY_FOLLOW_H_

#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Follows a job of hvdray, which runs on without its client, from its first line of output.
/// Returns an exit code. Blocks.
int FollowOnRay(CommandRequest& request);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_FOLLOW_H_
