// SPDX-License-Identifier: Apache-2.0
// Which of Ray's nodes runs on which machine of a cluster file. Ray's addresses need not be those
// of the file: that may have host names, loopback, or another interface. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_MEMBERS_H_
#define HVDRAY_CLUSTER_RAY_RAY_MEMBERS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/job/ray_node.h"

namespace hvdray {

/// What is known of a machine besides the cluster file.
struct RayMember {
  std::string address;  ///< As the file has it.
  std::string node_id;  ///< Of the raylet that `up` found on it; empty: nobody asked there.
  std::string ip;       ///< Its address for Ray; without a node_id, what its name means here.
  bool operator==(const RayMember&) const = default;
};

/// "ADDRESS NODE_ID IP", as the head keeps it (cluster/up/node_script.h). nullopt for any
/// other line.
std::optional<RayMember> ParseRayMember(std::string_view line);

/// Whether a user's word is the id of the node, or enough of its beginning.
bool IsNodeId(std::string_view word, std::string_view node_id);

/// For each of `machines` its node, in `nodes`; nullptr: none. No node belongs to two machines.
/// What a machine's own raylet said counts first, then that Ray has one head, then addresses.
/// `head`: index of the machine that has it; -1: unknown.
std::vector<const RayNode*> MatchRayNodes(const std::vector<std::string>& machines, int head,
                                          const std::vector<RayMember>& members,
                                          const std::vector<RayNode>& nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_MEMBERS_H_
