// SPDX-License-Identifier: Apache-2.0
// Where a cluster's machines come from when a cloud makes them. The tags are Ray's, so that Ray's
// own tools see the same cluster. Nothing here logs in to a machine.
#ifndef HVDRAY_CLUSTER_CLOUD_PROVIDER_H_
#define HVDRAY_CLUSTER_CLOUD_PROVIDER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "cluster/file/cluster_spec.h"

namespace hvdray {

using ProviderTags = std::map<std::string, std::string>;

inline constexpr std::string_view kTagCluster = "ray-cluster-name";
inline constexpr std::string_view kTagKind = "ray-node-type";
inline constexpr std::string_view kTagNodeType = "ray-user-node-type";
inline constexpr std::string_view kTagLaunchHash = "ray-launch-config";
inline constexpr std::string_view kTagStatus = "ray-node-status";
inline constexpr std::string_view kTagRequest = "ray-launch-request";
inline constexpr std::string_view kTagName = "Name";
inline constexpr std::string_view kNewNodeStatus = "uninitialized";

/// "head" or "worker", as the tag ray-node-type has it.
constexpr std::string_view KindWord(ClusterNodeKind kind) {
  return kind == ClusterNodeKind::kHead ? "head" : "worker";
}

enum class CloudState : uint8_t { kPending, kRunning, kStopping, kStopped, kEnding };

constexpr std::string_view CloudStateWord(CloudState state) {
  constexpr std::string_view kWords[] = {"pending", "running", "stopping", "stopped", "ending"};
  return kWords[static_cast<size_t>(state)];
}

/// A machine of the cluster. Value type.
struct CloudNode {
  std::string id;
  ClusterNodeKind kind = ClusterNodeKind::kWorker;
  std::string node_type;    ///< Among the file's available_node_types.
  std::string launch_hash;  ///< Of PreparedNode when it was created.
  std::string status;       ///< Ray's: "uninitialized", …, "up-to-date", "update-failed".
  CloudState state = CloudState::kPending;
  std::string state_reason;                        ///< The cloud's own words, if any.
  std::string internal_address, external_address;  ///< Empty: none yet, or none at all.
  std::string machine_type, zone, image, launch_time;
  std::string key_name;  ///< Of the key pair that logs in; empty: none, or unknown.
  bool is_spot = false;
  ProviderTags tags;  ///< All of them.

  bool is_live() const { return state == CloudState::kPending || state == CloudState::kRunning; }
};

/// A cloud resource other than a machine, and what happens to it.
struct ProviderStep {
  enum class Action : uint8_t { kKeep, kCreate, kChange, kDelete };
  Action action = Action::kKeep;
  std::string what;    ///< "key pair"
  std::string name;    ///< "ray-autoscaler_us-west-2"
  std::string detail;  ///< What is in it, or why it is kept.
};

constexpr std::string_view ActionWord(ProviderStep::Action action) {
  constexpr std::string_view kWords[] = {"keep", "create", "change", "delete"};
  return kWords[static_cast<size_t>(action)];
}

/// What Prepare() would do, for `up --dry-run`.
struct ProviderPlan {
  std::vector<ProviderStep> steps;
  std::vector<std::string> warnings;  ///< One line each.
};

/// All that makes a machine of one type in one role.
// clang-tidy sees a throw in the move of nlohmann's JSON, which is noexcept.
// NOLINTNEXTLINE(bugprone-exception-escape)
struct PreparedNode {
  std::string node_type;
  ClusterNodeKind kind = ClusterNodeKind::kWorker;
  Json node_config;         ///< With key, image, subnets and group filled in, as Ray fills them in.
  std::string launch_hash;  ///< Of node_config and auth, as Ray computes it.
  std::map<std::string, int64_t> resources;  ///< The file's, and what the machine type has.
};

struct PreparedCluster {
  std::vector<ProviderStep> steps;  ///< What was done.
  std::vector<std::string> warnings;
  std::vector<PreparedNode> nodes;  ///< The head first, then a worker of each type.
  std::string private_key_path;     ///< For SSH. Empty: ssh's own identities.
};

struct CreateRequest {
  PreparedNode node;
  int count = 1;
  /// Of letters, digits and '-', at most 64. A call that is repeated with the same id, by another
  /// process too, makes only what is missing of `count`.
  std::string request_id;
  ProviderTags tags;  ///< More of them; they replace those that every node gets.
  /// Where the type asks for spot machines and there are none: on-demand ones at their price.
  bool may_be_on_demand = false;
};

struct CreateOutcome {
  std::vector<CloudNode> nodes;  ///< Also those that an earlier call with this id made.
  /// ok: all of `count` are there. Else why the others are not: kNoCapacity, kQuotaExceeded, or
  /// what failed in the middle.
  Status shortfall;
};

enum class RemoveMode : uint8_t {
  kAsConfigured,  ///< Stops on-demand machines where the file has cache_stopped_nodes.
  kTerminate,
};

struct RemovedNode {
  std::string id;
  bool is_stopped = false;  ///< False: terminated.
};

/// Blocking calls, for BlockingPool. Each ends with kCancelled soon after Cancel(). Throttled calls
/// are retried internally, and reported by `note` (see the factories).
/// Threads: any, several calls at a time.
/// Errors of all calls: kCloudDenied, kCloudFailed, kNoCapacity, kQuotaExceeded, kUnknownHost,
/// kHostUnreachable, kConnectTimeout, kDeadlineExceeded, kProtocolError, kCancelled.
class Provider {
 public:
  virtual ~Provider() = default;

  /// All machines with the cluster's tag that are not gone, stopped ones too, head first, then by
  /// type and id. A machine that this object made a moment ago is in it even if the cloud does not
  /// show it yet.
  virtual Result<std::vector<CloudNode>> List() = 0;

  /// Reads only. Errors: also kSpecInvalid.
  virtual Result<ProviderPlan> Plan() = 0;

  /// Makes what Plan() found missing; repeated after any interruption, it goes on where that left
  /// off. `on_step`: called on this thread after each change. Errors: also kSpecInvalid,
  /// kFileUnwritable.
  virtual Result<PreparedCluster> Prepare(
      const std::function<void(const ProviderStep&)>& on_step) = 0;

  /// Creates machines and does not wait until they run.
  virtual Result<CreateOutcome> Create(const CreateRequest& request) = 0;

  /// Starts stopped machines that are what `request` asks for (same type, role and launch hash), at
  /// most `count`; waits for those that are still stopping. Fewer in the outcome than `count`, and
  /// no shortfall: no more exist.
  virtual Result<CreateOutcome> StartStopped(const CreateRequest& request) = 0;

  /// Adds or replaces tags: one call for all `ids`.
  virtual Status SetTags(const std::vector<std::string>& ids, const ProviderTags& tags) = 0;

  /// Stops or terminates, and does not wait until they have ended. Ids that are gone are fine.
  virtual Result<std::vector<RemovedNode>> Remove(const std::vector<std::string>& ids,
                                                  RemoveMode mode) = 0;

  /// Deletes what Prepare() has made for this cluster or shares with others, unless machines of
  /// others use it; then looks whether it is gone. Call when no machine of the cluster is left.
  /// Returns what was deleted and what was kept, and why.
  virtual Result<std::vector<ProviderStep>> Purge() = 0;

  /// Ends all current calls and all later ones. Returns at once.
  virtual void Cancel() = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLOUD_PROVIDER_H_
