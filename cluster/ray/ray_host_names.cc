#include "cluster/ray/ray_host_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace hvdray {
namespace {

constexpr size_t kShortId = 8;

}  // namespace

std::string RayIpOf(const std::string& id, std::span<const RayNode> nodes) {
  const auto found = std::find_if(nodes.begin(), nodes.end(),
                                  [&id](const RayNode& node) { return node.id == id; });
  return found == nodes.end() ? "node" : found->ip;
}

std::vector<std::string> RayHostNames(std::span<const std::string> ids,
                                      std::span<const RayNode> nodes) {
  std::map<std::string, int> nodes_at;
  // All of the cluster, so that a host keeps its name when its neighbour joins the job.
  for (const RayNode& node : nodes) nodes_at[node.ip] += node.is_alive ? 1 : 0;
  std::vector<std::string> names;
  for (const std::string& id : ids) {
    std::string name = RayIpOf(id, nodes);
    if (nodes_at[name] > 1) name += "-" + id.substr(0, kShortId);
    // HostSlots takes no ':' in a plain name.
    std::replace(name.begin(), name.end(), ':', '.');
    const bool is_taken = std::find(names.begin(), names.end(), name) != names.end();
    names.push_back(is_taken ? fmt::format("{}-{}", name, id) : std::move(name));
  }
  return names;
}

}  // namespace hvdray
