// SPDX-License-Identifier: Apache-2.0
// The output of `hvdray status --ray`, `hvdray slots --ray` and `hvdray jobs --ray`. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
#define HVDRAY_CLUSTER_RAY_RAY_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/ray/ray_facts.h"
#include "cluster/ray/ray_request.h"

namespace hvdray {

/// A cluster at one moment. `status` uses the nodes' resource names (after UndoCamelCase()), and
/// each node has its free resources (after FillFree()).
struct RaySnapshot {
  std::string url;
  RayVersion version;
  std::vector<RayNode> nodes;
  RayClusterStatus status;
};

/// Version, usage by node, waiting requests and the autoscaler's work.
std::string RayStatusText(const RaySnapshot& cluster);
/// Schema hvdray.ray_status/1, docs/ray.md, "For other programs".
std::string RayStatusJson(const RaySnapshot& cluster);

/// How many slots each node has room for now. Uses only the resources of a slot and the labels of
/// `ask`.
std::string RaySlotsText(const RaySnapshot& cluster, const RayAsk& ask);
/// Schema hvdray.ray_slots/1, docs/ray.md, "For other programs".
std::string RaySlotsJson(const RaySnapshot& cluster, const RayAsk& ask);

/// The jobs that hvdray has submitted, newest first.
std::vector<RayJob> JobsOfOurs(std::vector<RayJob> jobs);
/// `jobs`: from JobsOfOurs(). now_ms: since 1970.
std::string RayJobsText(const std::string& url, const std::vector<RayJob>& jobs, int64_t now_ms);
/// Schema hvdray.ray_jobs/1, docs/ray.md, "For other programs".
std::string RayJobsJson(const std::string& url, const std::vector<RayJob>& jobs);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
