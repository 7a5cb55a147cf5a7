// What of a Ray cluster is free now, from two answers of its dashboard that spell names
// differently. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_FREE_H_
#define HVDRAY_CLUSTER_RAY_RAY_FREE_H_

#include <string>
#include <vector>

#include "cluster/ray/ray_facts.h"

namespace hvdray {

/// The status of a cluster whose autoscaler writes no report: from what its nodes say, and with
/// what waits of `groups`.
RayClusterStatus StatusOfNodes(const RayNodeSummary& summary,
                               const std::vector<RayPlacementGroup>& groups);

/// Fills `free` of each node from what `status` says is in use, under the names that the node has
/// itself. A node of which nothing is said has none that is known.
void FillFree(const RayClusterStatus& status, std::vector<RayNode>& nodes);

/// Gives the amounts that wait in `status` the names that nodes have: myRes becomes my_res again.
/// A name that no node has stays as it is.
void UndoCamelCase(const std::vector<RayNode>& nodes, RayClusterStatus& status);

/// Amounts that are Ray's own book-keeping: node:10.0.0.11, parts of placement groups.
bool IsBookkeeping(const std::string& resource);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_FREE_H_
