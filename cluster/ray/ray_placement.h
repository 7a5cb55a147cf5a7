// SPDX-License-Identifier: Apache-2.0
// Turns a created placement group into hosts with slots, and a place for each host's agent. Pure.
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

/// One host per node that has a bundle, in the order of first bundles. So the ranks of a node are
/// contiguous, whatever the order of Ray's bundles.
struct RayPlacement {
  std::vector<HostSlots> hosts;
  // In the order of `hosts`, one each.
  std::vector<std::string> node_ids;
  std::vector<std::string> ips;
  std::vector<RayEndpointPlace> places;
};

/// `group` must be created, with a node of `nodes` for each bundle of `request`.
RayPlacement PlaceGroup(const RayRequest& request, const BrokerGroup& group,
                        std::span<const RayNode> nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_PLACEMENT_H_
