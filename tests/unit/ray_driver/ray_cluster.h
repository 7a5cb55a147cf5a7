// SPDX-License-Identifier: Apache-2.0
// Nodes and groups as tests write them.
#ifndef HVDRAY_TESTS_UNIT_RAY_DRIVER_RAY_CLUSTER_H_
#define HVDRAY_TESTS_UNIT_RAY_DRIVER_RAY_CLUSTER_H_

#include <string>
#include <vector>

#include "cluster/ray/broker_messages.h"

namespace hvdray {

/// A live node with CPUs; free: of those.
inline RayNode Node(const std::string& id, const std::string& ip, double cpus, double free) {
  return {.id = id, .ip = ip, .is_alive = true, .total = {{"CPU", cpus}}, .free = {{"CPU", free}}};
}
inline RayNode Dead(RayNode node) {
  node.is_alive = false;
  node.free.clear();
  return node;
}
inline BrokerGroup Created(const std::string& name, std::vector<std::string> bundles) {
  return {.name = name, .state = BrokerGroupState::kCreated, .bundles = std::move(bundles)};
}
inline BrokerGroup Pending(const std::string& name, const std::string& reason, size_t bundles) {
  return {.name = name,
          .state = BrokerGroupState::kPending,
          .reason = reason,
          .bundles = std::vector<std::string>(bundles)};
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_RAY_DRIVER_RAY_CLUSTER_H_
