// A node of a Ray cluster: what it has, what of that is free. A plain value, whoever told of it.
#ifndef HVDRAY_CLUSTER_RAY_RAY_NODE_H_
#define HVDRAY_CLUSTER_RAY_RAY_NODE_H_

#include <map>
#include <string>

namespace hvdray {

/// Ray's resources by name: {"CPU": 2, "GPU": 1, "node:10.0.0.11": 0.001}.
using RayAmounts = std::map<std::string, double>;
using RayLabels = std::map<std::string, std::string>;

struct RayNode {
  std::string id;  ///< Ray's, hex. Several nodes may share an address.
  std::string ip;
  bool is_alive = true;
  bool is_head = false;
  RayAmounts total;
  RayAmounts free;            ///< Empty where it is not known.
  bool is_free_known = true;  ///< What is not known counts as taken.
  RayLabels labels;
  bool is_leaving = false;  ///< It is being drained, and takes nothing new.
  bool operator==(const RayNode&) const = default;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_NODE_H_
