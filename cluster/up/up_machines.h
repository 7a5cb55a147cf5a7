// SPDX-License-Identifier: Apache-2.0
// The machines of a cloud as `hvdray up` takes them: before the driver, and after it. Blocks.
#ifndef HVDRAY_CLUSTER_UP_UP_MACHINES_H_
#define HVDRAY_CLUSTER_UP_UP_MACHINES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/status.h"
#include "cluster/up/managed_cluster.h"
#include "cluster/up/up_driver.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Gets or, for --dry-run, only looks at the machines, and makes hosts of them. nullopt: go on with
/// these; otherwise the command is over, with this exit code.
std::optional<int> TakeMachines(const CommandRequest& request, ManagedCluster& cluster,
                                UpPolicy& policy);

/// Tells Ray's own tools how the set-up of each machine ended, and `down --expired` until when it
/// may run.
void TagMachines(ManagedCluster& cluster, const std::vector<NodeRow>& rows, int64_t lease);

void TellThatMachinesStay(const ManagedCluster& cluster);

/// Tells `why` and ends the command, with its exit code. Nothing, or with a cloud perhaps machines,
/// were made.
int EndWith(const ManagedCluster& cluster, const Status& why);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_UP_MACHINES_H_
