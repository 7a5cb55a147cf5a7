// What `hvdray status --ray`, `hvdray slots --ray` and `hvdray jobs --ray` print. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
#define HVDRAY_CLUSTER_RAY_RAY_REPORT_H_

#include <cstdint>
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

/// Those that hvdray has submitted, the newest first.
std::vector<RayJob> JobsOfOurs(std::vector<RayJob> jobs);
/// `jobs`: of JobsOfOurs(). now_ms: since 1970.
std::string RayJobsText(const std::string& url, const std::vector<RayJob>& jobs, int64_t now_ms);
/// Schema hvdray.ray_jobs/1, docs/ray.md.
std::string RayJobsJson(const std::string& url, const std::vector<RayJob>& jobs);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
