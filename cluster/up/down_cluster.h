// SPDX-License-Identifier: Apache-2.0
// `hvdray down`: ends what `hvdray up` made of a cluster file, and looks whether anything is left.
#ifndef HVDRAY_CLUSTER_UP_DOWN_CLUSTER_H_
#define HVDRAY_CLUSTER_UP_DOWN_CLUSTER_H_

#include "base/types.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Ends the cluster of `file` as the options say. `began`: when hvdray was started. Returns an exit
/// code. Blocks.
int DownCluster(const CommandRequest& request, ClusterSpec file, TimePoint began);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_DOWN_CLUSTER_H_
