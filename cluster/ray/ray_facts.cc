// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_facts.h"

#include <algorithm>
#include <map>
#include <type_traits>
#include <utility>

namespace hvdray {

std::string RayCamelCase(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  constexpr char kCase = 'a' - 'A';
  std::string camel;
  bool is_first_part = true;
  bool is_word_open = false;
  for (const char c : name) {
    if (c == '_') {
      is_first_part = is_word_open = false;
      continue;
    }
    char shown = c;
    if (!is_first_part && is_letter(c)) {
      const bool is_lower = c >= 'a';
      if (is_word_open && !is_lower) shown = static_cast<char>(c + kCase);
      if (!is_word_open && is_lower) shown = static_cast<char>(c - kCase);
    }
    is_word_open = is_letter(c);
    camel += shown;
  }
  return camel;
}

RayClusterStatus StatusOfNodes(const RayNodeSummary& summary,
                               const std::vector<RayPlacementGroup>& groups) {
  RayClusterStatus status;
  status.usage_by_node = summary.usage_by_node;
  for (const auto& [id, usage] : summary.usage_by_node) {
    for (const auto& [name, use] : usage) {
      status.usage[name].used += use.used;
      status.usage[name].total += use.total;
    }
  }
  if (!summary.usage_by_node.empty()) {
    status.autoscaler = RayAutoscaler{.adds_nodes = summary.has_node_types};
  }
  std::map<RayAmounts, int> waiting;
  for (const RayPlacementGroup& group : groups) {
    if (group.state != "PENDING" && group.state != "RESCHEDULING") continue;
    for (const RayPlacementGroup::Bundle& bundle : group.bundles) {
      if (bundle.node_id.empty()) ++waiting[bundle.resources];
    }
  }
  for (const auto& [bundle, count] : waiting) {
    status.pending.push_back({.bundles = {{bundle, 1}}, .strategy = "", .count = count});
  }
  return status;
}

void FillFree(const RayClusterStatus& status, std::vector<RayNode>& nodes) {
  for (RayNode& node : nodes) {
    const auto usage = status.usage_by_node.find(node.id);
    node.is_free_known = usage != status.usage_by_node.end();
    node.free = node.is_free_known ? node.total : RayAmounts();
    if (!node.is_free_known) continue;
    for (auto& [name, amount] : node.free) {
      auto use = usage->second.find(RayCamelCase(name));
      if (use == usage->second.end()) use = usage->second.find(name);
      if (use != usage->second.end())
        amount = std::min(amount, std::max(amount - use->second.used, 0.0));
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
