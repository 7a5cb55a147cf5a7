// SPDX-License-Identifier: Apache-2.0
#include "cluster/cloud/cloud_hosts.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvdray {

std::string CloudAddress(const ClusterSpec& spec, const CloudNode& node) {
  const ClusterProvider& provider = spec.provider;
  const bool is_head = node.kind == ClusterNodeKind::kHead;
  const bool is_internal = provider.use_internal_ips && !(is_head && provider.use_external_head_ip);
  return is_internal ? node.internal_address : node.external_address;
}

HostSlots CloudHost(const ClusterSpec& spec, const CloudNode& node, int slots) {
  const std::string address = CloudAddress(spec, node);
  HostSlots host;
  host.host = node.internal_address.empty() ? address : node.internal_address;
  host.slots = slots;
  if (spec.auth.is_proxied_by_node_id) {
    host.address.name = node.id;
  } else if (address != host.host) {
    host.address.name = address;
  }
  host.address.host_key_alias = node.id;
  return host;
}

int CloudSlots(const ClusterSpec& spec, const CloudNode& node, int default_slots) {
  if (spec.slots_per_host) return *spec.slots_per_host;
  const auto type = std::ranges::find(spec.node_types, node.node_type, &ClusterNodeType::name);
  if (type == spec.node_types.end()) return default_slots;
  const auto cpus = type->resources.find("CPU");
  return cpus == type->resources.end() ? default_slots : static_cast<int>(cpus->second);
}

Result<const CloudNode*> LiveHead(const ClusterSpec& spec, const std::vector<CloudNode>& nodes) {
  std::vector<const CloudNode*> heads;
  std::string others;  // heads that do not run
  for (const CloudNode& node : nodes) {
    if (node.kind != ClusterNodeKind::kHead) continue;
    if (node.is_live()) {
      heads.push_back(&node);
    } else {
      others += fmt::format(", {} is {}", node.id, CloudStateWord(node.state));
    }
  }
  if (heads.empty()) {
    return Status(ErrorCode::kHostUnreachable,
                  fmt::format("cluster {} has no head{}", spec.cluster_name, others));
  }
  if (heads.size() > 1) {
    std::vector<std::string> ids;
    ids.reserve(heads.size());
    for (const CloudNode* head : heads) ids.push_back(head->id);
    return Status(ErrorCode::kHostUnreachable,
                  fmt::format("cluster {} has {} heads: {}", spec.cluster_name, heads.size(),
                              fmt::join(ids, ", ")),
                  "terminate all but one of them");
  }
  if (CloudAddress(spec, *heads.front()).empty()) {
    return Status(
        ErrorCode::kHostUnreachable,
        fmt::format("the head of cluster {}, {}, is {} and has no address yet", spec.cluster_name,
                    heads.front()->id, CloudStateWord(heads.front()->state)));
  }
  return heads.front();
}

bool IsCalled(const CloudNode& node, std::string_view word) {
  return !word.empty() &&
         (word == node.id || word == node.internal_address || word == node.external_address);
}

}  // namespace hvdray
