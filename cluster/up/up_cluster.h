// SPDX-License-Identifier: Apache-2.0
// `hvdray up`: from a cluster file to machines, nodes and their steps, and to an exit code.
#ifndef HVDRAY_CLUSTER_UP_UP_CLUSTER_H_
#define HVDRAY_CLUSTER_UP_UP_CLUSTER_H_

#include "base/types.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Starts the cluster of `file` as the options say, and prints how that went. `began`: when hvdray
/// was started. Returns an exit code. Blocks.
int UpCluster(const CommandRequest& request, ClusterSpec file, TimePoint began);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_UP_CLUSTER_H_
