// SPDX-License-Identifier: Apache-2.0
// The output of the commands that look at a Ray cluster: status, monitor, slots, jobs. Pure.
#ifndef HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
#define HVDRAY_CLUSTER_RAY_RAY_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "cluster/ray/ray_facts.h"
#include "cluster/ray/ray_members.h"
#include "launcher/job/ray_address.h"
#include "launcher/job/ray_request.h"

namespace hvdray {

/// A cluster at one moment. `status` uses the nodes' resource names (after UndoCamelCase()), and
/// each node has its free resources (after FillFree()).
struct RaySnapshot {
  RayAddress address;
  RayVersion version;
  std::vector<RayNode> nodes;
  RayClusterStatus status;
};

/// Version, usage by node, waiting requests and the autoscaler's work.
std::string RayStatusText(const RaySnapshot& cluster);
/// Schema hvdray.ray_status/1, docs/ray.md, "For other programs".
std::string RayStatusJson(const RaySnapshot& cluster);

/// What a cloud says about a machine of the cluster.
struct CloudMachine {
  std::string id;
  std::string address;           ///< In the cluster's network, as Ray has it. Empty: none yet.
  std::string external_address;  ///< Empty: none.
  std::string type;              ///< "m5.large"
  bool is_head = false, is_spot = false, is_running = false;
  std::string state;   ///< "pending", "running", "stopping", …
  std::string status;  ///< Ray's tag: "setting-up", "up-to-date", "update-failed", … May be empty.
  std::string reason;  ///< The cloud's own words about the state. May be empty.
};

/// The cluster of a cluster file at one moment: what Ray says, and what the file wants.
struct ClusterView {
  std::string name;                   ///< cluster_name
  std::string file;                   ///< Its path, as given.
  std::vector<std::string> machines;  ///< Addresses, the head's first; empty: the provider knows.
  std::vector<CloudMachine> cloud;    ///< Instead of `machines`, where a cloud has them.
  std::vector<RayMember> members;     ///< What is known of them besides.
  int64_t now_ms = 0;                 ///< Since 1970.
  Status ray_status;                  ///< Not ok: why Ray said nothing, so all below is empty.
  RaySnapshot cluster;
  std::vector<RayLostNode> lost;          ///< In the order of their deaths.
  std::vector<RayPlacementGroup> groups;  ///< In any state.
  std::vector<RayJob> jobs;
  std::vector<std::string> autoscaler_words;  ///< What it wrote last, a line each.
};

/// A machine of a view. `state`: "alive"; "dead": it was a node; "absent": it never joined; a
/// cloud's machine that does not run has its state there; "unknown": nobody could ask Ray.
struct ClusterMachine {
  std::string address;
  bool is_head = false;
  std::string state;
  std::string why;                      ///< Of a machine that is not alive.
  int64_t end_ms = 0;                   ///< When it died, since 1970; 0: unknown, or it has not.
  const RayNode* node = nullptr;        ///< Of a live one, in the view.
  const CloudMachine* cloud = nullptr;  ///< In the view; nullptr: no cloud's.
};

/// The machines of the file or the cloud, in their order, then further live nodes, then nodes that
/// died in the last ten minutes where nothing replaced them.
std::vector<ClusterMachine> MachinesOf(const ClusterView& view);

/// Whether view.members may tell more: machines and nodes are left without each other, or share an
/// address.
bool NeedsMembers(const ClusterView& view);

/// Machines with use or reason, waiting requests with reasons, jobs, the autoscaler's work: lines
/// without their ends.
std::vector<std::string> ClusterViewLines(const ClusterView& view);
/// Schema hvdray.cluster/1, docs/cluster.md. `indent` -1: on one line.
std::string ClusterViewJson(const ClusterView& view, int indent);
/// The same for a look that failed: name, time and error.
std::string ClusterErrorJson(const std::string& file, const Status& error, int64_t now_ms);

/// What differs between two looks, a line for each machine, group and job: "node 10.0.0.11: dead:
/// …". With nullptr: lists everything.
std::vector<std::string> ClusterChanges(const ClusterView* before, const ClusterView& after);

/// How many slots each node has room for now. Uses only the resources of a slot and the labels of
/// `ask`.
std::string RaySlotsText(const RaySnapshot& cluster, const RayAsk& ask);
/// Schema hvdray.ray_slots/1, docs/ray.md, "For other programs".
std::string RaySlotsJson(const RaySnapshot& cluster, const RayAsk& ask);

/// The jobs that hvdray has submitted, newest first.
std::vector<RayJob> JobsOfOurs(std::vector<RayJob> jobs);
/// `jobs`: from JobsOfOurs(). now_ms: since 1970.
std::string RayJobsText(const RayAddress& address, const std::vector<RayJob>& jobs, int64_t now_ms);
/// Schema hvdray.ray_jobs/1, docs/ray.md, "For other programs".
std::string RayJobsJson(const RayAddress& address, const std::vector<RayJob>& jobs);

/// "FAILED, exit code 3": the exit code only where Ray has one.
std::string RayJobState(const RayJob& job);
/// One job, of any submitter. `nodes`: the live ones, for the address of the driver's.
std::string RayJobText(const RayAddress& address, const RayJob& job,
                       const std::vector<RayNode>& nodes, int64_t now_ms);
/// Schema hvdray.ray_job/1, docs/ray.md, "For other programs".
std::string RayJobJson(const RayAddress& address, const RayJob& job,
                       const std::vector<RayNode>& nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_REPORT_H_
