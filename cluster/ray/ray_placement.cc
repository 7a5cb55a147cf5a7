// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_placement.h"

#include <algorithm>

#include "cluster/ray/ray_request.h"

namespace hvdray {

RayPlacement PlaceGroup(const RayRequest& request, const BrokerGroup& group,
                        std::span<const RayNode> nodes) {
  RayPlacement placement;
  for (size_t bundle = 0; bundle < group.bundles.size(); ++bundle) {
    const std::string& id = group.bundles[bundle];
    const auto found = std::find(placement.node_ids.begin(), placement.node_ids.end(), id);
    const auto host = static_cast<size_t>(found - placement.node_ids.begin());
    if (found == placement.node_ids.end()) {
      placement.node_ids.push_back(id);
      placement.ips.push_back(RayIpOf(id, nodes));
      placement.hosts.emplace_back();
      placement.places.push_back({.group = group.name, .bundles = {}, .node_id = id});
    }
    placement.hosts[host].slots += bundle < request.slots.size() ? request.slots[bundle] : 0;
    placement.places[host].bundles.push_back(static_cast<int>(bundle));
  }
  const std::vector<std::string> names = RayHostNames(placement.node_ids, nodes);
  for (size_t i = 0; i < names.size(); ++i) placement.hosts[i].host = names[i];
  return placement;
}

}  // namespace hvdray
