#include "cluster/ray/ray_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace hvdray {
namespace {

constexpr size_t kShortId = 8;

std::string IpOf(const std::string& id, std::span<const RayNode> nodes) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&id](const RayNode& node) { return node.id == id; });
  return found == nodes.end() ? "node" : found->ip;
}

}  // namespace

std::vector<std::string> RayHostNames(std::span<const std::string> ids,
                                      std::span<const RayNode> nodes) {
  std::map<std::string, int> nodes_at;
  // All of the cluster, so that a host keeps its name when its neighbour joins the job.
  for (const RayNode& node : nodes) nodes_at[node.ip] += node.is_alive ? 1 : 0;
  std::vector<std::string> names;
  for (const std::string& id : ids) {
    std::string name = IpOf(id, nodes);
    if (nodes_at[name] > 1) name += "-" + id.substr(0, kShortId);
    // HostSlots takes no ':' in a plain name.
    std::replace(name.begin(), name.end(), ':', '.');
    const bool is_taken = std::find(names.begin(), names.end(), name) != names.end();
    names.push_back(is_taken ? fmt::format("{}-{}", name, id) : std::move(name));
  }
  return names;
}

RayPlacement PlaceGroup(const RayRequest& request, const BrokerGroup& group,
                        std::span<const RayNode> nodes) {
  RayPlacement placement;
  for (size_t bundle = 0; bundle < group.bundles.size(); ++bundle) {
    const std::string& id = group.bundles[bundle];
    const auto found = std::find(placement.node_ids.begin(), placement.node_ids.end(), id);
    const auto host = static_cast<size_t>(found - placement.node_ids.begin());
    if (found == placement.node_ids.end()) {
      placement.node_ids.push_back(id);
      placement.ips.push_back(IpOf(id, nodes));
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
