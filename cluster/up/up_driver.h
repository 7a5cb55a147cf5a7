// SPDX-License-Identifier: Apache-2.0
// Decides what `hvdray up` does, node by node, all at once: log in, look, plan, set up, start Ray
// on the head and, as soon as its GCS listens, on the workers, verify on the head that each has
// joined. Pure.
#ifndef HVDRAY_CLUSTER_UP_UP_DRIVER_H_
#define HVDRAY_CLUSTER_UP_UP_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/up/cluster_driver.h"
#include "cluster/up/node_script.h"
#include "cluster/up/node_steps.h"
#include "cluster/up/start_line.h"

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

/// Where a node is. In this order, except that any may fail.
enum class UpState : uint8_t {
  kLoggingIn,
  kLooking,    ///< Surveying, and of the head also asking for its nodes.
  kWaiting,    ///< For the plan, which needs all nodes.
  kLeasing,    ///< Its lease is changed, first of all.
  kSettingUp,  ///< At steps[step].
  kChecking,   ///< Ray's version.
  kForHead,    ///< Set up. Workers wait for the head's GCS, it for the end of their former Ray.
  kStarting,   ///< Token, end of the former Ray, start commands.
  kJoining,    ///< Started; not yet seen by the head.
  kUp,
  kFailed,
};
std::string_view Name(UpState state);

/// Facts, effects and rows name nodes by their index in `nodes`; 0 is the head. A node that fails
/// stays failed and the others go on; workers that still need a failed head fail with it.
class UpDriver final : public ClusterDriver {
 public:
  /// `nodes`: at least one; their steps run in order. `token`: Ray's, for a cluster that has none
  /// yet. Secret.
  UpDriver(UpPolicy policy, std::vector<UpNode> nodes, std::string token);

  ClusterEffects Begin(TimePoint now) override;
  ClusterEffects Handle(const ClusterEvent& event, TimePoint now) override;
  std::optional<TimePoint> NextDeadline() const override;

  std::vector<NodeRow> Rows() const override;
  /// The end of the cluster's lease, once there is a plan; 0: none.
  int64_t lease() const { return lease_; }
  /// The head as it was looked at last.
  const NodeSurvey& head_survey() const { return nodes_.front().survey; }
  /// The plan is made and agreed to.
  bool is_working() const override { return is_working_; }

 private:
  /// What a node in kStarting does, in order.
  enum class StartStage : uint8_t { kToken, kStop, kCommands, kLook };
  struct Node {
    UpNode plan;
    LogInRetry retry;
    UpState state = UpState::kLoggingIn;
    StartStage stage = StartStage::kToken;
    bool is_decided = false;  ///< `need` is known.
    UpNeed need = UpNeed::kCreate;
    int found_processes = 0;  ///< When it was looked at.
    NodeSurvey survey;
    bool is_restarting = false;  ///< Its Ray is to be started, after the former is ended.
    size_t step = 0;
    bool is_marking = false;  ///< Its files are copied; recording that.
    RayReach reach;           ///< Of its start commands, in kChecking.
    std::optional<TimePoint> try_at;
    std::optional<TimePoint> look_at;     ///< In kLook: again, because its Ray still starts.
    std::optional<TimePoint> look_until;  ///< No longer.
    std::optional<RayVersions> versions;
    std::vector<StepOutcome> steps;        ///< Those that ran.
    std::optional<SyncStats> copied;       ///< By all steps.
    std::optional<SyncStats> step_copied;  ///< By the present one.
    std::optional<TimePoint> logged_in;
    TimePoint worked{};               ///< Begin of the set-up.
    std::optional<TimePoint> set_up;  ///< End of it.
    TimePoint step_began{};
    TimePoint started{};  ///< Its start commands have ended.
    std::optional<TimePoint> joined;
    Status why;
  };

  void On(const cluster_event::LoggedIn& fact);
  void On(const cluster_event::Lost& fact);
  void On(const cluster_event::Done& fact);
  void On(const cluster_event::Listening& fact);
  void On(const cluster_event::Answer& fact);
  void On(const event::Tick& fact);

  void OnLooked(size_t node, const TaskResult& result);
  void OnNodes(const TaskResult& result);
  void OnStepDone(size_t node, const TaskResult& result);
  void OnVersions(size_t node, const TaskResult& result);
  void OnStartStage(size_t node, const TaskResult& result);
  void OnStarted(size_t node, const TaskResult& result);

  void MakePlan();
  void Decide(size_t node);
  void DecideLease();
  void SayPlan();
  void SayLease();
  void Work();
  void WorkOn(size_t node);
  void NextStep(size_t node);
  void EndSetUp(size_t node);
  void CheckVersions(size_t node);
  void OfferStart(size_t node);
  void OfferHeadStart();
  static bool IsInHeadsWay(const Node& node);
  void NextStartStage(size_t node, StartStage stage);
  void RunStep(size_t node);
  void NoteStepDone(size_t node, const TaskResult& result);
  void NoteCopied(size_t node, const SyncStats& copied);
  void AskForNodes();
  void OfferWorkers();
  void NoteJoined(const JoinedNodes& nodes);
  void EnterUp(size_t node);
  void Fail(size_t node, Status why);
  void FailStep(size_t node, const NodeStep& step, const TaskResult& result);
  Status StepFailure(const NodeStep& step, const TaskResult& result) const;
  void FinishIfOver();
  std::vector<std::string> MembersNow() const;
  bool NoteMembers();
  void OnMembersNoted(const TaskResult& result);

  void Enter(size_t index, UpState next);
  void Run(size_t node, NodeTask task);
  void Call(size_t node, std::string verb, std::vector<std::string> arguments = {});
  void Say(size_t node, const std::string& text, bool is_step = false);
  void SayStep(size_t node, const std::string& text) { Say(node, text, true); }
  void Note(ClusterNote what) { effects_.emplace_back(cluster_effect::Note{std::move(what)}); }
  Node& head() { return nodes_.front(); }
  bool IsHeadUp() const { return nodes_.front().state == UpState::kUp; }
  /// Workers can connect to it.
  bool IsHeadOpen() const { return IsHeadUp() || is_head_listening_; }
  bool IsAnyAt(UpState state) const;
  bool IsHead(size_t node) const { return node == 0; }

  const UpPolicy policy_;
  std::vector<Node> nodes_;
  std::string token_;
  JoinedNodes ray_nodes_;  ///< At the time of the look.
  int64_t lease_ = 0;
  int64_t ended_lease_ = 0;  ///< The latest end found that is over.
  bool is_planned_ = false;  ///< All nodes were looked at.
  bool is_working_ = false;
  std::vector<std::string> members_;  ///< What the head has noted.
  bool is_asking_ = false;            ///< The head is busy with `nodes`.
  bool is_noting_ = false;            ///< The head is busy with `members`.
  bool is_head_lost_ = false;
  bool is_head_listening_ = false;
  bool is_over_ = false;
  std::optional<TimePoint> ask_at_;
  TimePoint began_{};
  TimePoint now_{};
  ClusterEffects effects_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_UP_DRIVER_H_
