// SPDX-License-Identifier: Apache-2.0
// The rules that no elastic job may break, checked over facts and effects as they pass: in the
// simulator of the tests and in `hvdray replay`. Knows only what the driver knows. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_INVARIANTS_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_INVARIANTS_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/driver/events.h"
#include "launcher/job/elastic_policy.h"

namespace hvdray {

/// Follows one job beside its driver and reports each broken rule. Threads: one.
class ElasticInvariants {
 public:
  /// `on_broken` is called from within Check() and CheckEnded(), once for each broken rule, with
  /// one line of text.
  ElasticInvariants(const ElasticPolicy& policy, std::function<void(std::string)> on_broken)
      : policy_(policy), on_broken_(std::move(on_broken)) {}

  /// Call after each ElasticDriver::Handle(), with its arguments and effects. `next_deadline`: the
  /// driver's NextDeadline() after that call.
  void Check(const ElasticEvent& event, TimePoint now, std::span<const ElasticEffect> effects,
             std::optional<TimePoint> next_deadline);
  /// Call when the job should have ended; reports a missing Finish.
  void CheckEnded();

  bool has_finished() const { return has_finished_; }  ///< Finish was seen.

 private:
  enum class Agent : uint8_t { kNone, kConnecting, kReady };
  struct Host {
    Agent agent = Agent::kNone;
    bool is_stopping = false;  ///< Got StopGeneration; has not answered yet.
  };
  struct Worker {
    RankInfo place;
    Generation started_for = 0;
    bool is_started = false;
    bool is_dead = false;
    bool has_arrived = false;
    bool has_met = false;
    bool has_connected = false;
    bool is_parked = false;
    bool was_released = false;  ///< Ever in a published generation.
  };
  using Slot = std::pair<int, int>;  // Host and local rank.

  void Broken(std::string rule) { on_broken_(std::move(rule)); }
  Worker* Find(WorkerId worker);
  void Bury(WorkerId worker, bool is_loss);
  void BuryHost(int host);

  void Learn(const event::HostReady& e);
  void Learn(const event::HostLost& e);
  void Learn(const event::ProcessExited& e);
  void Learn(const event::WorkerArrived& e);
  void Learn(const event::WorkerMet& e);
  void Learn(const event::WorkerConnected& e);
  void Learn(const event::AddressesRegistered& e);
  void Learn(const event::RankAsked& e);
  void Learn(const event::GenerationStopped& e);
  template <typename Other>
  void Learn(const Other&) {}

  void Judge(const effect::ConnectHost& e);
  void Judge(const effect::ReleaseHost& e);
  void Judge(const effect::StartWorkers& e);
  void Judge(const effect::PublishGeneration& e);
  void Judge(const effect::OpenBarrier& e);
  void Judge(const effect::StopWorkers& e);
  void Judge(const effect::BreakConnections& e);
  void Judge(const effect::Notify& e);
  void Judge(const effect::MembershipChanged& e);
  void Judge(const effect::StopGeneration& e);
  void Judge(const effect::Say& e);
  void Judge(const effect::Finish& e);
  void JudgeMap(const effect::PublishGeneration& e);
  void JudgeMembers(const effect::PublishGeneration& e);
  void JudgeBeginning(const effect::PublishGeneration& e);
  void JudgeRejoin(const NewWorker& starting);

  const ElasticPolicy policy_;
  const std::function<void(std::string)> on_broken_;
  std::map<int, Host> hosts_;
  std::vector<Worker> workers_;      // By number.
  std::map<Slot, WorkerId> living_;  // The living worker of a slot.
  effect::PublishGeneration published_{};
  bool is_barrier_open_ = false;
  bool has_begun_ = false;        // A gang has left hvd.init().
  bool was_begun_again_ = false;  // Restarted before any state existed.
  bool was_member_lost_ = false;  // Since then.
  int64_t last_timestamp_ = 0;
  bool has_finished_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_INVARIANTS_H_
