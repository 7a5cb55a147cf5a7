#include "cluster/ray/ray_free.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

#include "cluster/ray/ray_answers.h"

namespace hvdray {
void FillFree(const RayClusterStatus& status, std::vector<RayNode>& nodes) {
  for (RayNode& node : nodes) {
    node.free = node.total;
    const auto usage = status.usage_by_node.find(node.id);
    if (usage == status.usage_by_node.end()) continue;
    for (auto& [name, amount] : node.free) {
      auto use = usage->second.find(RayCamelCase(name));
      if (use == usage->second.end()) use = usage->second.find(name);
      if (use != usage->second.end()) amount = std::min(amount, use->second.free());
    }
  }
}

void UndoCamelCase(const std::vector<RayNode>& nodes, RayClusterStatus& status) {
  std::map<std::string, std::string> names;
  for (const RayNode& node : nodes) {
    for (const auto& [name, amount] : node.total) names.emplace(RayCamelCase(name), name);
  }
  const auto undo = [&names](auto& amounts) {
    std::remove_reference_t<decltype(amounts)> undone;
    for (auto& [name, amount] : amounts) {
      const auto found = names.find(name);
      undone.emplace(found == names.end() ? name : found->second, std::move(amount));
    }
    amounts = std::move(undone);
  };
  undo(status.usage);
  for (auto& [id, usage] : status.usage_by_node) undo(usage);
  for (RayDemand& demand : status.pending) {
    for (auto& [bundle, count] : demand.bundles) undo(bundle);
  }
}

bool IsBookkeeping(const std::string& resource) {
  return resource.starts_with("node:") || resource.starts_with("bundle") ||
         resource.find("Group") != std::string::npos ||
         resource.find("_group_") != std::string::npos;
}

}  // namespace hvdray
