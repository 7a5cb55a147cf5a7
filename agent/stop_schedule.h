// SPDX-License-Identifier: Apache-2.0
// Which signal the groups of a gang get when, once it is told to end. Pure: sends nothing, reads no
// clock.
//
// What always holds: SIGTERM is due at most once, and never after SIGKILL; SIGKILL is due once,
// when the shortest grace is over; no call makes either later. A SIGINT that was sent before has a
// grace of its own in front of SIGTERM's, until a second Stop() ends it.
#ifndef HVDRAY_AGENT_STOP_SCHEDULE_H_
#define HVDRAY_AGENT_STOP_SCHEDULE_H_

#include <optional>

#include "base/types.h"

namespace hvdray {

/// Threads: one. `now` never goes back.
class StopSchedule {
 public:
  /// All groups were sent SIGINT.
  void OnInterrupted() { is_interrupted_ = true; }
  /// SIGKILL after `grace`, SIGTERM before that; without grace SIGKILL alone. May be repeated: only
  /// a shorter grace counts.
  void Stop(TimePoint now, Duration grace);
  /// The signal to send now; 0: none.
  int TakeDue(TimePoint now);
  /// After Stop(): when TakeDue() may next return a signal.
  TimePoint next() const { return term_at_.value_or(*kill_at_); }
  /// After Stop().
  TimePoint kill_at() const { return *kill_at_; }

  bool has_begun() const { return kill_at_.has_value(); }
  bool is_killed() const { return is_killed_; }
  /// By Stop(), or by a SIGINT before that.
  bool is_told_to_end() const { return has_begun() || is_interrupted_; }

 private:
  bool is_interrupted_ = false;
  bool is_killed_ = false;
  std::optional<TimePoint> term_at_;  // SIGTERM is still to be sent.
  std::optional<TimePoint> kill_at_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_STOP_SCHEDULE_H_
