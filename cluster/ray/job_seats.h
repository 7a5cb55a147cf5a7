// What a job wants of a Ray cluster as one Ray job for each node (--ray-mode jobs): which node
// takes how many slots, by what is free now. Pure.
#ifndef HVDRAY_CLUSTER_RAY_JOB_SEATS_H_
#define HVDRAY_CLUSTER_RAY_JOB_SEATS_H_

#include <span>
#include <string>
#include <vector>

#include "cluster/ray/ray_node.h"
#include "cluster/ray/ray_request.h"

namespace hvdray {

/// A node's part of the job; its agent sits there. Seats are numbered as they stand in their list.
struct RayJobSeat {
  std::string host;  ///< What people call the node, see RayHostNames().
  std::string node_id;
  std::string ip;
  int slots = 0;
  RayAmounts amounts;  ///< What its slots need together.
  bool operator==(const RayJobSeat&) const = default;
};

/// A seat on each node that gets slots, in rank order; empty: what is free now has no room. PACK
/// takes few nodes, the roomiest first, SPREAD one slot of each node in turn, STRICT_PACK the
/// tightest node that has room for all, STRICT_SPREAD a node for each bundle. Of nodes that are as
/// good the first in `nodes` is taken.
std::vector<RayJobSeat> PlaceSeats(const RayRequest& request, std::span<const RayNode> nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_JOB_SEATS_H_
