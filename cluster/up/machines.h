// SPDX-License-Identifier: Apache-2.0
// The machines of a cluster that a cloud makes: plans which must exist, lists those that do, and
// reconciles the two. What runs on them is UpDriver's and DownDriver's part.
#ifndef HVDRAY_CLUSTER_UP_MACHINES_H_
#define HVDRAY_CLUSTER_UP_MACHINES_H_

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cluster/cloud/provider.h"
#include "cluster/file/cluster_spec.h"

namespace hvdray {

/// Machines of one type in one role.
struct MachineGroup {
  ClusterNodeKind kind = ClusterNodeKind::kWorker;
  std::string node_type;
  int wanted = 0;                   ///< At least so many.
  std::vector<CloudNode> kept;      ///< Pending or running.
  std::vector<CloudNode> outdated;  ///< Made from another node_config: to be replaced.
  std::vector<CloudNode> surplus;   ///< More than max_workers allows.
  int stopped = 0;                  ///< Machines that were stopped and could be started again.

  int missing() const { return std::max(0, wanted - static_cast<int>(kept.size())); }
};

/// What the cloud has and what it lacks.
struct MachinePlan {
  std::vector<ProviderStep> steps;  ///< Key pairs and the like.
  std::vector<std::string> warnings;
  std::vector<MachineGroup> groups;  ///< The head's first.
  /// Workers of the head's own autoscaler; hvdray leaves them alone.
  std::vector<CloudNode> autoscaled;

  bool has_changes() const;
  /// A line for each step and group, as `up` shows them.
  std::vector<std::string> Lines() const;
};

/// Compares. `nodes`: all of the cluster, as Provider::List() has them. `prepared`: for launch
/// hashes; empty: not known yet, all machines count as made from this file. Pure.
/// Errors: kSpecInvalid when there is more than one live head.
Result<MachinePlan> PlanMachines(const ClusterSpec& spec, const std::vector<CloudNode>& nodes,
                                 const std::vector<PreparedNode>& prepared);

/// A machine that Make() got, or could not get.
struct Machine {
  CloudNode node;         ///< Of one that could not be had: only kind and type.
  TimePoint requested{};  ///< Zero: it was there already.
  Duration boot{};        ///< From the request until it ran.
  Status why;             ///< Not ok: it is not there.
};

/// What `down` takes away.
struct RemovePolicy {
  bool keeps_head = false;
  bool keeps_min_workers = false;  ///< Of each type; implies keeps_head.
  bool is_purged = false;          ///< Stopped machines are terminated, too.
};

/// How Machines acts on the world besides the provider.
struct MachineEdge {
  std::function<void(std::string_view line)> say;
  std::function<bool(Duration)> sleep;  ///< False: cancelled.
  std::function<TimePoint()> now;
};

/// Blocking calls, for BlockingPool: Provider::Cancel() and the edge's sleep() end them with
/// kCancelled. Each may be repeated after an interruption, also by another process, and goes on
/// where that stopped. Errors: those of Provider. Threads: one at a time.
class Machines {
 public:
  /// `provider` and `spec` outlive it.
  Machines(Provider& provider, const ClusterSpec& spec, MachineEdge edge)
      : provider_(provider), spec_(spec), edge_(std::move(edge)) {}

  /// Reads only. Errors: also kSpecInvalid; kFileUnreadable when machines run whose private key is
  /// not on this machine.
  Result<MachinePlan> Plan();

  /// Makes key pairs and the like and the machines that are missing, replaces what is outdated,
  /// ends what is surplus, and waits until all run. The head first, workers by type. A worker that
  /// cannot be had is in the answer; without a head it is an error. `tags`: on each of them, before
  /// anything is done on it.
  Result<std::vector<Machine>> Make(const ProviderTags& tags = {});
  /// After Make(): what the head's and the workers' node_config became.
  const PreparedCluster& prepared() const { return prepared_; }

  /// What Remove() would take away now.
  Result<std::vector<CloudNode>> ListRemovable(const RemovePolicy& policy);
  /// Whether Remove() stops `node` for the next `up` instead of terminating it.
  bool IsToStop(const CloudNode& node, const RemovePolicy& policy) const {
    return KeepsStopped(policy) && !node.is_spot;
  }
  /// The ids of the machines that are stopped.
  Result<std::vector<std::string>> ListStopped();
  /// Stops or terminates, as the file says, and lists again until nothing of it is left.
  /// Errors: also kDeadlineExceeded, with what is left.
  Status Remove(const RemovePolicy& policy);
  /// Deletes what the cluster used besides machines; says what it keeps and why.
  Status Purge();

 private:
  Result<MachinePlan> Compare();
  Status Clear(const MachinePlan& plan);
  Status Fill(const MachineGroup& group, const ProviderTags& tags, std::vector<Machine>* machines);
  Status Tag(const std::vector<Machine>& machines, const ProviderTags& tags);
  Status AwaitRunning(std::vector<Machine>* machines);
  bool KeepsStopped(const RemovePolicy& policy) const {
    return spec_.provider.cache_stopped_nodes && !policy.is_purged;
  }
  const PreparedNode* FindPrepared(const MachineGroup& group) const;

  Provider& provider_;
  const ClusterSpec& spec_;
  const MachineEdge edge_;
  PreparedCluster prepared_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_MACHINES_H_
