// SPDX-License-Identifier: Apache-2.0
// A node of a Ray cluster with its total and free resources. A plain value, from the dashboard or
// from the broker.
#ifndef HVDRAY_LAUNCHER_JOB_RAY_NODE_H_
#define HVDRAY_LAUNCHER_JOB_RAY_NODE_H_

#include <map>
#include <optional>
#include <string>

namespace hvdray {

/// Ray's resources by name: {"CPU": 2, "GPU": 1, "node:10.0.0.11": 0.001}.
using RayAmounts = std::map<std::string, double>;
/// Labels of a node, or a selector of labels.
using RayLabels = std::map<std::string, std::string>;

/// One node.
struct RayNode {
  std::string id;  ///< Ray's, hex. The key, since several nodes may share an address.
  std::string ip;
  bool is_alive = true;
  bool is_head = false;
  RayAmounts total;
  RayAmounts free;            ///< Empty if unknown.
  bool is_free_known = true;  ///< Unknown resources count as taken.
  RayLabels labels;
  /// Set while Ray drains the node, which then accepts nothing new: when it leaves, in seconds
  /// since 1970; 0: unknown.
  std::optional<double> leaves_at = {};
  bool operator==(const RayNode&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_NODE_H_
