// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_members.h"

#include <algorithm>
#include <cstddef>
#include <functional>

#include "base/text.h"

namespace hvdray {
namespace {

/// Nodes that are given away, each once.
class Matching {
 public:
  Matching(size_t machines, const std::vector<RayNode>& nodes)
      : nodes_(nodes), node_of_(machines), is_taken_(nodes.size()) {}

  /// Gives `machine` the first free node that fits.
  void Take(size_t machine, const std::function<bool(const RayNode&)>& fits) {
    if (node_of_[machine] != nullptr) return;
    for (size_t node = 0; node < nodes_.size(); ++node) {
      if (is_taken_[node] || !fits(nodes_[node])) continue;
      node_of_[machine] = &nodes_[node];
      is_taken_[node] = true;
      return;
    }
  }
  std::vector<const RayNode*> Result() && { return std::move(node_of_); }

 private:
  const std::vector<RayNode>& nodes_;
  std::vector<const RayNode*> node_of_;
  std::vector<bool> is_taken_;
};

}  // namespace

std::optional<RayMember> ParseRayMember(std::string_view line) {
  const std::vector<std::string_view> words = BlankSeparated(line);
  if (words.size() != 3) return std::nullopt;
  return RayMember{std::string(words[0]), std::string(words[1]), std::string(words[2])};
}

bool IsNodeId(std::string_view word, std::string_view node_id) {
  constexpr size_t kShortest = 6;
  return word.size() >= kShortest && node_id.starts_with(word);
}

std::vector<const RayNode*> MatchRayNodes(const std::vector<std::string>& machines, int head,
                                          const std::vector<RayMember>& members,
                                          const std::vector<RayNode>& nodes) {
  Matching matching(machines.size(), nodes);
  const auto by_member = [&](const std::function<bool(const RayMember&, const RayNode&)>& fits) {
    for (size_t machine = 0; machine < machines.size(); ++machine) {
      for (const RayMember& member : members) {
        if (member.address != machines[machine]) continue;
        matching.Take(machine, [&](const RayNode& node) { return fits(member, node); });
      }
    }
  };
  by_member([](const RayMember& member, const RayNode& node) {
    return !member.node_id.empty() && member.node_id == node.id;
  });
  if (head >= 0) {
    matching.Take(static_cast<size_t>(head), [](const RayNode& node) { return node.is_head; });
  }
  for (size_t machine = 0; machine < machines.size(); ++machine) {
    matching.Take(machine, [&](const RayNode& node) { return node.ip == machines[machine]; });
  }
  // Of a Ray that somebody has started there anew, or one that hvdray has not started.
  by_member([](const RayMember& member, const RayNode& node) { return member.ip == node.ip; });
  return std::move(matching).Result();
}

}  // namespace hvdray
