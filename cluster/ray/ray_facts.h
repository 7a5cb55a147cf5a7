// SPDX-License-Identifier: Apache-2.0
// The facts that a Ray cluster's dashboard reports, as plain values.
#ifndef HVDRAY_CLUSTER_RAY_RAY_FACTS_H_
#define HVDRAY_CLUSTER_RAY_RAY_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/job/ray_node.h"

namespace hvdray {

/// Version and session of the cluster.
struct RayVersion {
  std::string ray;      ///< "2.60.0"
  int jobs_api = 0;     ///< 4: jobs can be deleted.
  std::string session;  ///< "session_2026-11-21_03-27-51_012542_6585"
};

/// One resource.
struct RayUse {
  double used = 0;
  double total = 0;
};
/// By resource name.
using RayUsage = std::map<std::string, RayUse>;

/// A request that waits for room, `count` times: a placement group of `bundles`, or one bundle for
/// a task, actor or job.
struct RayDemand {
  std::vector<std::pair<RayAmounts, int>> bundles;  ///< Each with its count.
  std::string strategy;                             ///< Of a placement group; otherwise empty.
  int count = 1;
};

/// A node that an autoscaler is about to add, or failed to.
struct RayPendingNode {
  std::string ip;      ///< May be empty, or a provider's id.
  std::string type;    ///< As in available_node_types.
  std::string status;  ///< "setting-up"
};

/// The state of the autoscaler.
struct RayAutoscaler {
  bool adds_nodes = false;  ///< false: it only observes, as when all nodes joined by `ray start`.
  std::vector<RayPendingNode> pending;
  std::map<std::string, int> launching;  ///< Number of requested nodes by node type.
  std::vector<RayPendingNode> failed;
};

/// Resource usage and waiting requests. Figures are up to 5 s old. The dashboard rewrites some
/// resource names; UndoCamelCase() restores them.
struct RayClusterStatus {
  bool has_report = false;  ///< An autoscaler has written a report; only v1 does.
  std::map<std::string, RayUsage> usage_by_node;  ///< By node id.
  RayUsage usage;                                 ///< Of all nodes.
  std::vector<RayDemand> pending;
  std::optional<RayAutoscaler> autoscaler;  ///< nullopt: no report yet.
};

/// What the nodes themselves report, with any version of the autoscaler. Resource names are
/// original.
struct RayNodeSummary {
  /// By node id; used amounts of memory may be rounded up. Empty: unknown yet.
  std::map<std::string, RayUsage> usage_by_node;
  /// Some node has the name of its type: an autoscaler created it, and may create more.
  bool has_node_types = false;
};

/// A placement group in any state, also of other jobs.
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

/// A node that has died or left.
struct RayLostNode {
  std::string id, ip;
  bool is_head = false;
  std::string why;     ///< "Expected termination: received SIGTERM". May be empty.
  int64_t end_ms = 0;  ///< Since 1970; 0: unknown.
};

/// kUnknown: a status that this version of hvdray doesn't know.
enum class RayJobStatus : uint8_t { kPending, kRunning, kSucceeded, kFailed, kStopped, kUnknown };
constexpr bool IsTerminal(RayJobStatus status) {
  return status == RayJobStatus::kSucceeded || status == RayJobStatus::kFailed ||
         status == RayJobStatus::kStopped;
}

/// In the metadata of hvdray's own jobs: the command of its workers. What Ray runs is the agent.
inline constexpr const char* kRayCommandKey = "hvdray_command";

/// A job of the cluster.
struct RayJob {
  std::string submission_id;  ///< Empty: a driver that was started without a submission.
  std::string job_id;         ///< "08000000"; empty until the entrypoint calls ray.init().
  RayJobStatus status = RayJobStatus::kUnknown;
  std::string status_text;  ///< As sent.
  std::string entrypoint;   ///< For people: of hvdray's own jobs, their command.
  std::string message;      ///< Several lines; may contain the tail of the log.
  std::string error_type;   ///< "RUNTIME_ENV_SETUP_FAILURE"; empty: no error.
  std::map<std::string, std::string> metadata;
  std::string driver_node_id;  ///< Empty while pending.
  std::optional<int> driver_exit_code;
  int64_t start_ms = 0, end_ms = 0;  ///< Since 1970; 0: not yet.
};

/// A job to submit by POST /api/jobs/. Empty and zero fields are omitted.
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
  RayAmounts resources;  ///< Other resources, by name.
  RayLabels label_selector;
};

// Finds the free resources of a cluster from two answers of its dashboard that spell resource names
// differently. Pure.

/// The dashboard's spelling of a key in cluster_status: objectStoreMemory for object_store_memory,
/// node:InternalHead for node:__internal_head__. Source: it applies Python's str.title() to each
/// part but the first.
std::string RayCamelCase(std::string_view name);

/// The status of a cluster whose autoscaler writes no report: usage from its nodes, and waiting
/// requests from `groups`.
RayClusterStatus StatusOfNodes(const RayNodeSummary& summary,
                               const std::vector<RayPlacementGroup>& groups);

/// Fills `free` of each node from the usage in `status`, under the node's own resource names.
/// Clears is_free_known for a node without usage.
void FillFree(const RayClusterStatus& status, std::vector<RayNode>& nodes);

/// Restores the nodes' resource names in `status`: myRes becomes my_res again. Keeps names that no
/// node has.
void UndoCamelCase(const std::vector<RayNode>& nodes, RayClusterStatus& status);

/// True for Ray's internal resources: node:10.0.0.11, parts of placement groups.
bool IsBookkeeping(const std::string& resource);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_FACTS_H_
