// SPDX-License-Identifier: Apache-2.0
// What `hvdray up` does to each node of a cluster file: its steps, and the files that are copied.
#ifndef HVDRAY_CLUSTER_UP_UP_PLAN_H_
#define HVDRAY_CLUSTER_UP_UP_PLAN_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/up/managed_cluster.h"
#include "cluster/up/managed_run.h"
#include "cluster/up/node_steps.h"
#include "cluster/up/up_driver.h"

namespace hvdray {

/// The file mounts, which are the same for all nodes. Needs no machine. `scratch`: a directory for
/// files that are made. Errors: those of PlanMounts() and HashFiles().
Status PlanFiles(const ManagedCluster& cluster, const std::string& scratch, StepFacts& facts,
                 NodeFiles& files);

/// Steps of all nodes, and the files of the head's autoscaler.
Status PlanNodes(const ManagedCluster& cluster, const std::string& scratch, StepFacts facts,
                 std::vector<UpNode>& nodes, NodeFiles& files);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_UP_PLAN_H_
