// SPDX-License-Identifier: Apache-2.0
// Decides what `hvdray down` does on hosts that stay (provider local): log in everywhere, look,
// ask, end the cluster's Ray on the workers and then on the head, and see that nothing of it is
// left. Pure.
#ifndef HVDRAY_CLUSTER_UP_DOWN_DRIVER_H_
#define HVDRAY_CLUSTER_UP_DOWN_DRIVER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/up/cluster_driver.h"
#include "cluster/up/node_script.h"

namespace hvdray {

/// What was asked of `down`.
struct DownPolicy {
  std::string cluster;
  std::string head;           ///< Its address as the file has it.
  bool is_confirmed = false;  ///< --yes
  /// --expired: end it only if its lease has ended by then, in seconds since 1970.
  std::optional<int64_t> expired_by;
  Duration log_in_limit{std::chrono::seconds(20)};
  /// Said when all have ended. Empty: the caller, which goes on to end the machines, sums up, also
  /// where some have not ended.
  std::string last_words = "No nodes remaining.";
};

/// A node that is to end, by its address as the file has it.
struct DownNode {
  std::string address;
  bool is_head = false;
};

/// Facts, effects and rows name nodes by their index in `nodes`. A node that fails, because it
/// can't be reached for example, is reported and the others are ended.
class DownDriver final : public ClusterDriver {
 public:
  /// `nodes`: in any order, at most one head. None: Begin() finishes at once.
  DownDriver(DownPolicy policy, std::vector<DownNode> nodes);
  DownDriver(const DownDriver&) = delete;
  DownDriver& operator=(const DownDriver&) = delete;

  ClusterEffects Begin(TimePoint now) override;
  ClusterEffects Handle(const ClusterEvent& event, TimePoint now) override;
  std::optional<TimePoint> NextDeadline() const override;
  bool is_working() const override { return is_working_; }
  std::vector<NodeRow> Rows() const override;

 private:
  enum class State : uint8_t {
    kLoggingIn,
    kLooking,
    kRunning,
    kDraining,  ///< The head alone: its jobs are stopped.
    kStopping,
    kChecking,
    kEnded,
    kFailed
  };
  struct Node {
    DownNode plan;
    NodeEffects effects;
    NodeLogIn log_in = {};
    State state = State::kLoggingIn;
    int processes = 0;
    bool has_container = false;
    int64_t lease = 0;  ///< Its end; 0: none.
    bool is_looked_at = false;
    std::optional<TimePoint> due;  // of the call in progress
    std::optional<TimePoint> logged_in;
    TimePoint ordered{};  // to end
    std::optional<TimePoint> ended;
    Status why;
    bool has_any() const { return processes > 0 || has_container || lease != 0; }
  };

  static std::string_view Name(State state);
  static NodePhase PhaseOf(State state);
  std::string_view NeedOf(const Node& node) const;
  void On(const cluster_event::LoggedIn& fact);
  void On(const cluster_event::Lost& fact);
  void On(const cluster_event::Done& fact);
  void On(const cluster_event::Listening& /*fact*/) {}  // of `up`
  void On(const cluster_event::Answer& fact);
  void On(const event::Tick& fact);
  void OnLooked(size_t index, const TaskResult& result);
  void OnStopped(size_t index, const TaskResult& result);
  void OnChecked(size_t index, const TaskResult& result);
  void OnDrained(size_t index, const TaskResult& result);
  void MakePlan();
  void Work();
  bool IsKeptByLease();
  void StopNext();
  void Call(size_t index, State next, std::string verb, std::vector<std::string> arguments = {});
  void Stop(size_t index);
  void Fail(size_t index, const Status& why);
  void FinishIfOver();
  size_t CountAt(State state) const;

  const DownPolicy policy_;
  std::vector<Node> nodes_;
  bool is_planned_ = false;
  bool is_kept_ = false;  // by its lease
  bool is_working_ = false;
  bool is_over_ = false;
  TimePoint began_{};
  TimePoint now_{};
  ClusterEffects effects_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_DOWN_DRIVER_H_
