// From a placement group that is there to hosts with slots, and the seat of each. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_PLACEMENT_H_
#define HVDRAY_CLUSTER_RAY_RAY_PLACEMENT_H_

#include <span>
#include <string>
#include <vector>

#include "base/host_slots.h"
#include "cluster/ray/broker_messages.h"
#include "cluster/ray/ray_node.h"
#include "cluster/ray/ray_request.h"
#include "cluster/ray/ray_transport.h"

namespace hvdray {

/// One host for each node that has a bundle, in the order of first bundles; so ranks are
/// contiguous on each node, whatever order Ray's bundles are in.
struct RayPlacement {
  std::vector<HostSlots> hosts;
  // As many as hosts.
  std::vector<std::string> node_ids;
  std::vector<std::string> ips;
  std::vector<RaySeatPlace> places;
};

/// group: created, with a node of `nodes` for each bundle of `request`.
RayPlacement PlaceGroup(const RayRequest& request, const BrokerGroup& group,
                        std::span<const RayNode> nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_PLACEMENT_H_
