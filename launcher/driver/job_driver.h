// SPDX-License-Identifier: Apache-2.0
// What drivers of fixed and of elastic jobs do alike: changes of state, signals, a slow or absent
// reader, the limits of the job and of each state, and the end. Pure. docs/adr/0018-two-drivers.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_JOB_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_JOB_DRIVER_H_

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/driver/cause.h"
#include "launcher/driver/events.h"
#include "launcher/driver/states.h"

namespace hvdray {

/// Base of GangDriver and ElasticDriver. `State`: has kStopping and kFinished, and CanFollow().
/// `Effect`: a variant with effect::Say. Threads: one caller at a time.
template <typename State, typename Effect>
class JobDriver {
 public:
  State state() const { return state_; }
  /// The generation started or published last; 0 before the first.
  Generation generation() const { return generation_; }

  /// Facts that were dropped: of an old generation, about unknown workers, or repeated.
  uint64_t stale_events() const { return stale_events_; }

 protected:
  /// The limits that every job has.
  struct Limits {
    Duration grace;        ///< From SIGTERM to SIGKILL.
    Duration timeout;      ///< Of the whole job; 0: no limit.
    Duration stop_margin;  ///< Beyond `grace`: how long a host may take to report its end.
  };

  JobDriver(const Limits& limits, State first, TimePoint now, StateChangeFn on_change)
      : begun_(now),
        on_change_(std::move(on_change)),
        now_(now),
        grace_(limits.grace),
        state_(first),
        limits_(limits) {
    if (limits.timeout > Duration::zero()) job_deadline_ = now + limits.timeout;
  }
  JobDriver(const JobDriver&) = default;
  ~JobDriver() = default;

  /// Acts on the known facts.
  virtual void Advance() = 0;
  /// The limit of the present state has passed.
  virtual void ExpireState() = 0;
  virtual std::optional<TimePoint> StateDeadline() const { return state_deadline_; }
  /// Orders the stop of all workers; may be repeated with less grace.
  virtual void StopAll(Duration grace) = 0;
  virtual bool HasWorkers() const = 0;
  /// Acts on deadlines that only this kind of job has; the last step of each Handle().
  virtual void ExpireOthers() {}
  /// The present cause leads to a restart, unless one comes that ends the job.
  virtual bool WillRestart() const { return false; }

  /// Handle() of every driver. `take_fact` stores the fact.
  template <typename TakeFact>
  std::vector<Effect> Take(TimePoint now, TakeFact take_fact) {
    if (IsTerminal(state_)) return {};
    now_ = std::max(now_, now);
    effects_.clear();
    const bool was_unlimited = IsDrainUnlimited();
    take_fact();
    Advance();
    // The limit that was suspended while the reader was slow starts now.
    if (was_unlimited && !IsDrainUnlimited() && state_ == State::kStopping) {
      state_deadline_ = std::max(*state_deadline_, now_ + limits_.stop_margin);
    }
    ExpireLimits();
    ExpireOthers();
    return std::exchange(effects_, {});
  }

  /// When --timeout or the limit of the state passes. Not after the end.
  std::optional<TimePoint> NextLimit() const {
    const auto of_state = IsDrainUnlimited() ? std::nullopt : StateDeadline();
    if (!of_state || !job_deadline_) return of_state ? of_state : job_deadline_;
    return std::min(*of_state, *job_deadline_);
  }

  void On(const event::UserSignal& e) {
    ++ending_.signals;
    const bool was_stopping = state_ == State::kStopping;
    if (ending_.signals == 1) {
      if (was_stopping) {
        Say(IsStopLong() ? HurriedStopNotice(e.signo, limits_.grace)
                         : "the workers are being stopped already; repeat to kill them now");
      } else if (HasWorkers()) {
        Say(StopNotice(e.signo, limits_.grace));
      }
      EndBy(InterruptedCause(e.signo));
    } else if (ending_.signals == 2 && was_stopping) {
      Say("killing all workers");
      StopAll(Duration::zero());
    }
  }
  void On(const event::Dismissed& e) {
    const bool is_first = ending_.cause.kind == CauseKind::kNone;
    EndBy(DismissedCause());
    grace_ = is_first ? e.grace : std::min(grace_, e.grace);
    if (state_ == State::kStopping && !is_first) StopAll(grace_);
  }
  void On(const event::ReaderGone&) { EndBy(ReaderGoneCause()); }
  void On(const event::OutputDamaged& e) {
    if (std::string text = ending_.NoteDamage(e.why); !text.empty()) Say(std::move(text));
  }
  void On(const event::OutputBlocked& e) { ending_.is_output_blocked = e.is_blocked; }
  void On(const event::Tick&) {}

  void Count(bool is_news) { stale_events_ += is_news ? 0 : 1; }
  void Say(std::string text) { effects_.push_back(effect::Say{std::move(text)}); }

  /// Says who of a generation that is followed by another one had to be killed; those of the last
  /// one are in the closing lines.
  void SayKilled(std::span<const WorkerRecord> workers) {
    const Status killed = KilledAfterGrace(workers);
    if (!killed.ok()) Say(fmt::format("{}; {}", killed.message(), killed.hint()));
  }

  /// The only place that changes the state; clears its limit.
  void Enter(State to) {
    if (to == state_) return;
    const State from = std::exchange(state_, to);
    HVDRAY_CHECK(CanFollow(from, to));
    state_deadline_.reset();
    if (on_change_) {
      on_change_({.when = now_, .generation = generation_, .from = Name(from), .to = Name(to)});
    }
  }

  /// The first cause wins; one that does not end the job yet is replaced by one that does, and any
  /// by a stricter one, whose grace begins now.
  void EndBy(Cause cause) {
    const bool is_stricter = IsStricter(cause.kind, ending_.cause.kind);
    if (ending_.cause.is_final() && !WillRestart() && !is_stricter) return;
    ending_.cause = std::move(cause);
    if (is_stricter && IsStopLong()) StopAll(limits_.grace);
  }

  /// The present stop leaves the workers more time than the job's own grace.
  bool IsStopLong() const {
    return state_ == State::kStopping && now_ + limits_.grace < ending_.kill_by;
  }

  /// For StopAll(), once the state is kStopping: until when it may last.
  void LimitStop(Duration grace) {
    ending_.kill_by = now_ + grace;
    state_deadline_ = now_ + ending_.StopLimit(grace, limits_.stop_margin);
  }

  /// While a job that is stopping waits for a slow reader, the limit of its state does not count.
  bool IsDrainUnlimited() const { return state_ == State::kStopping && ending_.IsDrainUnlimited(); }

  /// The cause for hosts that never reported the end of their workers; tells the user.
  Cause GiveUpCause(std::span<const std::string> hosts) {
    Cause cause = StopTimeoutCause(hosts, now_ - ending_.since);
    Say(fmt::format("{}: {}", cause.error.message(), cause.error.hint()));
    return cause;
  }

  /// Ends the job. The caller fills in the workers and sends the verdict.
  Verdict Close() {
    Enter(State::kFinished);
    ending_.Close();
    return {.exit_code = ending_.cause.exit_code,
            .origin = ending_.cause.origin,
            .error = ending_.cause.error,
            .swept = ending_.swept,
            .started = begun_,
            .ended = now_};
  }

  const TimePoint begun_;
  const StateChangeFn on_change_;
  TimePoint now_;
  std::optional<TimePoint> state_deadline_;
  Generation generation_ = 0;
  Ending ending_;
  Duration grace_;  ///< Of the job's end.
  uint32_t restarts_ = 0;
  uint64_t stale_events_ = 0;
  std::vector<Effect> effects_;

 private:
  void ExpireLimits() {
    if (job_deadline_ && now_ >= *job_deadline_) {
      job_deadline_.reset();
      // If all workers have succeeded in time, only the wait for a slow reader ends.
      if (IsDrainUnlimited()) state_deadline_ = now_ + limits_.stop_margin;
      ending_.is_timed_out = true;
      if (ending_.cause.kind != CauseKind::kSuccess) EndBy(TimeoutCause(limits_.timeout));
      Advance();
    }
    if (const auto limit = StateDeadline(); limit && now_ >= *limit && !IsDrainUnlimited()) {
      state_deadline_.reset();
      ExpireState();
      Advance();
    }
  }

  State state_;
  const Limits limits_;
  std::optional<TimePoint> job_deadline_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_JOB_DRIVER_H_
