// SPDX-License-Identifier: Apache-2.0
// The agents of a job of fixed size, one for each host of its plan: started at once, taken through
// the steps before the first workers, and never replaced. Decides nothing about workers.
#ifndef HVDRAY_LAUNCHER_ENGINE_FIXED_AGENTS_H_
#define HVDRAY_LAUNCHER_ENGINE_FIXED_AGENTS_H_

#include <functional>
#include <map>
#include <string>

#include "base/loop.h"
#include "launcher/driver/events.h"
#include "launcher/engine/job_agents.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/start_sequence.h"

namespace hvdray {

/// A timer for --start-timeout, which does not run while the caller's own start is held up
/// (PlanPlace::held_up). Threads: the loop's.
class StartLimit {
 public:
  /// Loop and plan outlive it.
  StartLimit(Loop& loop, const LaunchPlan& plan) : loop_(loop), plan_(plan) {}
  /// Calls `on_late` once when the time is over, counted from now.
  void Begin(std::function<void()> on_late) { Wait(loop_.Now(), std::move(on_late)); }
  void Cancel() { timer_.Cancel(); }
  bool is_active() const { return timer_.is_active(); }

 private:
  void Wait(TimePoint began, std::function<void()> on_late);

  Loop& loop_;
  const LaunchPlan& plan_;
  Watch timer_;
};

/// Each host is awaited, then ready or lost; once lost it stays so. An agent's number is its
/// host's. Owns the steps of a start. Threads: the loop's.
class FixedAgents final : public JobAgents, private StartSequence::Owner {
 public:
  /// What they tell, from the loop; Feed() and OnMayStart() also from within
  /// BeginSteps().
  class Owner {
   public:
    /// What the driver is to know of hosts: HostLost, Copying, HostSynced.
    virtual void Feed(Event fact) = 0;
    virtual void OnReady(int host, const wire::HostFacts& facts) = 0;
    virtual void OnLost(int host, Status why) = 0;
    virtual void OnMessage(int host, wire::Message&& message) = 0;
    /// The steps of the start are done.
    virtual void OnMayStart() = 0;

   protected:
    ~Owner() = default;
  };

  /// All of them outlive it.
  FixedAgents(Loop& loop, Transport& transport, Trace& trace, const LaunchPlan& plan,
              Listener& listener, Owner& owner);

  /// The steps before workers start; answered by OnMayStart(), or Feed(HostLost).
  void BeginSteps(Generation generation);
  StartSequence& steps() { return steps_; }
  const std::string& Name(int host) const { return plan_.hosts[static_cast<size_t>(host)].host; }
  bool AreAllReady() const { return ready_count_ == hosts_.size(); }
  /// All are ready or lost, and no link is full. If some are awaited, they are lost when
  /// --start-timeout is over: an object holds up what its client says, even a bye.
  bool HasObjectRoom();
  /// Errors: kAgentLost if one is lost, since nothing can start any more.
  Status CheckNoneLost() const;

 private:
  bool IsAwaited(int host) const { return !agents_.IsReady(host) && !lost_.contains(host); }

  void LoseAwaited();

  // Of AgentSet::Owner.
  void OnReady(int host, const wire::HostFacts& facts) override;
  void OnLost(int host, Status why) override;
  void OnMessage(int host, wire::Message&& message) override;
  void OnOutputRoom(int /*host*/) override { listener_.OnOutputRoom(); }
  void OnNoise(int host, ByteView line) override;

  // Of StartSequence::Owner.
  void SendStep(int host, wire::Body body) override;
  void OnStepFailed(int host, Status why) override;
  void OnCopying(bool is_active) override { owner_.Feed(event::Copying{is_active}); }
  void OnSynced(int host, const SyncStats& stats) override;
  void OnMayStart() override { owner_.OnMayStart(); }

  const LaunchPlan& plan_;
  Owner& owner_;
  StartSequence steps_;
  Generation generation_ = 0;  // of the steps
  int ready_count_ = 0;
  std::map<int, Status> lost_;  // and why
  StartLimit object_limit_;     // of the first object that came before all hosts were ready
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_FIXED_AGENTS_H_
