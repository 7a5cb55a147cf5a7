// What `hvdray status --ray` and `hvdray slots --ray` print. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
#define HVDRAY_CLUSTER_RAY_RAY_REPORT_H_

#include <string>
#include <vector>

#include "cluster/ray/ray_facts.h"
#include "cluster/ray/ray_request.h"

namespace hvdray {

/// A cluster at one moment. Names in `status` are those of the nodes (UndoCamelCase()), and what is
/// free is known of each node (FillFree()).
struct RaySnapshot {
  std::string url;
  RayVersion version;
  std::vector<RayNode> nodes;
  RayClusterStatus status;
};

std::string RayStatusText(const RaySnapshot& cluster);
/// Schema hvdray.ray_status/1, docs/ray.md.
std::string RayStatusJson(const RaySnapshot& cluster);

/// How many slots of `ask` each node has room for now. Only what a slot is made of counts.
std::string RaySlotsText(const RaySnapshot& cluster, const RayAsk& ask);
/// Schema hvdray.ray_slots/1, docs/ray.md.
std::string RaySlotsJson(const RaySnapshot& cluster, const RayAsk& ask);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
