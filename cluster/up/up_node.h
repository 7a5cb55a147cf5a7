// SPDX-License-Identifier: Apache-2.0
// Decides what `hvdray up` does on one node: log in, look, set up, start Ray, join. What it needs
// of the other nodes, up_driver.h tells it. Pure.
#ifndef HVDRAY_CLUSTER_UP_UP_NODE_H_
#define HVDRAY_CLUSTER_UP_UP_NODE_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/up/cluster_driver.h"
#include "cluster/up/node_script.h"
#include "cluster/up/node_steps.h"
#include "cluster/up/start_line.h"
#include "cluster/up/step_runner.h"

namespace hvdray {

/// A node as the file has it, or as a cloud made it. The first one is the head.
struct UpNode {
  std::string address;
  std::vector<NodeStep> steps;
  std::vector<std::string> exports = {};  ///< NAME=VALUE for the start commands.
  Duration boot{};                        ///< Until its machine ran; zero: it ran before.
  Status why = {};                        ///< Not ok: there is no such machine. Not of the head.
};

/// What was asked of `up`.
struct UpPolicy {
  std::string cluster;
  std::string head;     ///< What workers join.
  std::string command;  ///< "hvdray up FILE", for hints.
  bool is_dry_run = false;
  bool is_confirmed = false;  ///< --yes
  bool is_restart_only = false;
  bool is_no_restart = false;
  bool is_setup_forced = false;
  /// Nobody else can use these nodes: a Ray of another head is a former one of this cluster.
  bool is_exclusive = false;
  /// --lease: its end (lease.h); 0: take it back; nullopt: as it is, also for nodes that are new.
  std::optional<int64_t> lease;
  bool is_powered_off = false;  ///< A node whose lease has ended powers off: a cloud's machine.
  int64_t wall_time = 0;  ///< When `up` began, in seconds since 1970; for leases that are found.
  Duration log_in_limit{std::chrono::seconds(60)};
  std::string who;  ///< For another `up` of the same node: "ann@laptop, pid 7".
  Duration join_limit{std::chrono::seconds(60)};
  Duration join_pause{std::chrono::milliseconds(300)};  ///< Between questions to the head.
};

/// What a node needs, found by looking at it.
enum class UpNeed : uint8_t { kKeep, kCreate, kChange };
std::string_view Name(UpNeed need);

/// Where a node is. In this order, except that any may fail.
enum class UpState : uint8_t {
  kLoggingIn,
  kLooking,    ///< Surveying, and of the head also asking for its nodes.
  kWaiting,    ///< For the plan, which needs all nodes.
  kLeasing,    ///< Its lease is changed, first of all.
  kSettingUp,  ///< Its steps run.
  kChecking,   ///< Ray's version.
  kForHead,    ///< Set up. Workers wait for the head's GCS, it for the end of their former Ray.
  kStarting,   ///< Token, end of the former Ray, start commands.
  kJoining,    ///< Started; not yet seen by the head.
  kUp,
  kFailed,
};
std::string_view Name(UpState state);
constexpr bool IsEnd(UpState state) { return state >= UpState::kUp; }

/// What the nodes of one `up` share.
struct UpContext {
  const UpPolicy policy;
  TimePoint began{};
  TimePoint now{};
  ClusterEffects effects = {};
};

/// Always: the state moves only forward, but for a worker that ends its former Ray in the head's
/// way and then waits for it again; kUp and kFailed are final. It orders a task only when it has
/// none in progress, and none in kLoggingIn, kWaiting, kForHead, kJoining and at its end. `why` is
/// not ok in kFailed, and only there.
class UpNodeDriver {
 public:
  /// Number 0 is the head. `context` outlives it.
  UpNodeDriver(UpContext& context, int number, UpNode plan);

  /// Or fails, where there is no machine.
  void LogIn();
  void OnLoggedIn();
  void OnLost(const Status& why);
  void OnDone(const TaskResult& result);
  void OnTick();
  std::optional<TimePoint> NextDeadline() const;

  /// Ends the look of a head whose Ray was asked for its nodes.
  void AwaitPlan() { Enter(UpState::kWaiting); }
  /// From here on it knows what it needs, and says so. `listed`: what the head's Ray knows.
  NodePlan Decide(const JoinedNodes& listed, const UpNodeDriver& head);
  /// Does that. `lease`: its end, 0: none. `is_needed`: workers start, which need a head's token
  /// and versions even if it is kept.
  void Work(int64_t lease, bool is_needed);
  /// In kForHead: ends its former Ray, and waits again.
  void ClearForHead();
  /// In kForHead, of a head. `token`: Ray's, unless the node has one.
  void StartHead(std::string token);
  /// In kForHead, of a worker. `head`: is kUp, or its GCS listens.
  void StartWorker(const UpNodeDriver& head);
  /// In kJoining: the head has answered.
  void OnListed(const JoinedNodes& listed, const UpNodeDriver& head);
  /// The head has failed: this worker fails, too, once it has done what it does without it.
  void LoseHead();
  void Fail(Status why);

  const std::string& address() const { return effects_.address(); }
  UpState state() const { return state_; }
  /// As it was looked at last.
  const NodeSurvey& survey() const { return survey_; }
  /// Its Ray is to be started, after the former is ended.
  bool is_restarting() const { return is_restarting_; }
  NodeRow Row() const;

 private:
  /// What a node in kStarting does, in order. kClear: only that, for the head's restart.
  enum class StartStage : uint8_t { kClear, kToken, kStop, kCommands, kLook };

  void OnLooked(const TaskResult& result);
  void SetUp();
  void OnVersions(const TaskResult& result);
  void BeginStage(StartStage stage);
  void OnStageDone(const TaskResult& result);
  void OnStarted(const TaskResult& result);
  void EnterUp();
  void Enter(UpState next) { state_ = next; }
  bool is_head() const { return effects_.node() == 0; }

  UpContext& context_;
  NodeEffects effects_;
  NodeLogIn log_in_;
  StepRunner steps_;
  const Duration boot_;
  const Status missing_;  ///< Not ok: why there is no machine.
  UpState state_ = UpState::kLoggingIn;
  StartStage stage_ = StartStage::kToken;
  bool is_decided_ = false;  ///< `need_` is known.
  UpNeed need_ = UpNeed::kCreate;
  int found_processes_ = 0;  ///< When it was looked at.
  NodeSurvey survey_;
  bool is_restarting_ = false;
  bool is_needed_ = false;
  bool is_headless_ = false;
  std::string token_;
  RayReach reach_;                       ///< Of its start commands, in kChecking.
  std::optional<TimePoint> look_at_;     ///< In kLook: again, because its Ray still starts.
  std::optional<TimePoint> look_until_;  ///< No longer.
  std::optional<RayVersions> versions_;
  std::optional<TimePoint> logged_in_;
  std::optional<TimePoint> worked_;  ///< Begin of the set-up.
  std::optional<TimePoint> set_up_;  ///< End of it.
  TimePoint started_{};              ///< Its start commands have ended.
  std::optional<TimePoint> joined_;
  Status why_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_UP_NODE_H_
