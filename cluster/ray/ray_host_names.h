// What people call the nodes of a Ray cluster. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_HOST_NAMES_H_
#define HVDRAY_CLUSTER_RAY_RAY_HOST_NAMES_H_

#include <span>
#include <string>
#include <vector>

#include "cluster/ray/ray_node.h"

namespace hvdray {

/// What people call each node of `ids`: its address; of several nodes at one address, the address
/// with the begin of the node's id ("10.0.0.11-b6c5c53b"). In their order, no two alike.
std::vector<std::string> RayHostNames(std::span<const std::string> ids,
                                      std::span<const RayNode> nodes);

/// The address of node `id`; "node" when nodes has none of that name.
std::string RayIpOf(const std::string& id, std::span<const RayNode> nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_HOST_NAMES_H_
