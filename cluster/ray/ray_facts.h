// What a Ray cluster's dashboard tells, as plain values.
#ifndef HVDRAY_CLUSTER_RAY_RAY_FACTS_H_
#define HVDRAY_CLUSTER_RAY_RAY_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cluster/ray/ray_node.h"

namespace hvdray {

struct RayVersion {
  std::string ray;      ///< "2.60.0"
  int jobs_api = 0;     ///< 4: jobs can be deleted.
  std::string session;  ///< "session_2026-11-21_03-27-51_012542_6585"
};

struct RayUse {
  double used = 0;
  double total = 0;
};
using RayUsage = std::map<std::string, RayUse>;

/// Something that waits for room: `bundles` of a placement group, or one bundle for tasks, actors
/// and jobs; `count` times.
struct RayDemand {
  std::vector<std::pair<RayAmounts, int>> bundles;  ///< Each with how many of it.
  std::string strategy;                             ///< Of a placement group; else empty.
  int count = 1;
};

/// A node that an autoscaler is about to add, or failed to.
struct RayPendingNode {
  std::string ip;      ///< May be empty, or a provider's id.
  std::string type;    ///< As in available_node_types.
  std::string status;  ///< "setting-up"
};

struct RayAutoscaler {
  bool adds_nodes = false;  ///< false: it only looks on, as where each node joined by `ray start`.
  std::vector<RayPendingNode> pending;
  std::map<std::string, int> launching;  ///< Node type to how many are asked for.
  std::vector<RayPendingNode> failed;
};

/// Figures are up to 5 s old. Resource names are as the dashboard writes them, which is not always
/// as they are: UndoCamelCase() in ray_free.h.
struct RayClusterStatus {
  bool has_report = false;
  std::map<std::string, RayUsage> usage_by_node;  ///< By node id.
  RayUsage usage;                                 ///< Of all.
  std::vector<RayDemand> pending;
  std::optional<RayAutoscaler> autoscaler;  ///< nullopt: it has not reported yet.
};

/// Of the nodes themselves, whatever version the autoscaler has. Names are as they are.
struct RayNodeSummary {
  /// By node id; used amounts of memory may be rounded up. Empty: nothing is known yet.
  std::map<std::string, RayUsage> usage_by_node;
  /// Some node carries the name of its type: an autoscaler made it, and may make more.
  bool has_node_types = false;
};

struct RayPlacementGroup {
  std::string id, name, creator_job_id;
  std::string state;             ///< PENDING, PREPARED, CREATED, REMOVED, RESCHEDULING.
  std::string scheduling_state;  ///< NO_RESOURCES, INFEASIBLE, ...
  struct Bundle {
    RayAmounts resources;
    std::string node_id;  ///< Empty: not placed.
  };
  std::vector<Bundle> bundles;
};

enum class RayJobStatus : uint8_t { kPending, kRunning, kSucceeded, kFailed, kStopped, kUnknown };
constexpr bool IsTerminal(RayJobStatus status) {
  return status == RayJobStatus::kSucceeded || status == RayJobStatus::kFailed ||
         status == RayJobStatus::kStopped;
}

struct RayJob {
  std::string submission_id;  ///< Empty: somebody's driver that was not submitted.
  std::string job_id;         ///< "08000000"; empty until the entrypoint calls ray.init().
  RayJobStatus status = RayJobStatus::kUnknown;
  std::string status_text;  ///< As sent.
  std::string entrypoint;
  std::string message;     ///< Many lines; may hold the tail of the log.
  std::string error_type;  ///< "RUNTIME_ENV_SETUP_FAILURE"; empty: none.
  std::map<std::string, std::string> metadata;
  std::string driver_node_id;  ///< Empty while pending.
  std::optional<int> driver_exit_code;
  int64_t start_ms = 0, end_ms = 0;  ///< Since 1970; 0: not yet.
};

/// What to submit (spec 1.5). Empty and zero fields are left out.
struct RayJobRequest {
  std::string entrypoint;
  std::string submission_id;
  std::string working_dir;              ///< "gcs://hvdray_….zip"
  std::vector<std::string> py_modules;  ///< The same form.
  std::map<std::string, std::string> env_vars;
  std::map<std::string, std::string> metadata;
  double num_cpus = 0;
  double num_gpus = 0;
  int64_t memory_bytes = 0;
  RayAmounts resources;  ///< Others, by their names.
  RayLabels label_selector;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_FACTS_H_
