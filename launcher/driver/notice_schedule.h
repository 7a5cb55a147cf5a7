// SPDX-License-Identifier: Apache-2.0
// When rank 0 gets its next notice to meet, and with which timestamp. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_NOTICE_SCHEDULE_H_
#define HVDRAY_LAUNCHER_DRIVER_NOTICE_SCHEDULE_H_

#include <algorithm>
#include <chrono>
#include <optional>

#include "base/types.h"

namespace hvdray {

/// Always: a notice is due only while the schedule runs, and no sooner than `interval` after the
/// last one unless it is hurried; timestamps rise from notice to notice, since a worker ignores one
/// that does not. A value; threads: one.
class NoticeSchedule {
 public:
  /// `began`: of the job, and the same in seconds since the epoch.
  NoticeSchedule(Duration interval, TimePoint began, int64_t began_epoch_s)
      : interval_(interval), began_(began), began_epoch_s_(began_epoch_s) {}

  /// The first notice is due now. No effect while it runs.
  void Start(TimePoint now) {
    if (!next_) next_ = now;
  }
  void Stop() { next_.reset(); }
  /// The next one is due now, if it runs.
  void Hurry(TimePoint now) {
    if (next_) next_ = now;
  }
  /// A notice is due; the next one is `interval` later.
  bool Take(TimePoint now) {
    if (!next_ || now < *next_) return false;
    next_ = now + interval_;
    return true;
  }
  /// Of a notice that is sent now.
  int64_t Timestamp(TimePoint now) {
    const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(now - began_).count();
    return last_timestamp_ = std::max(began_epoch_s_ + elapsed, last_timestamp_ + 1);
  }
  /// nullopt: it does not run.
  const std::optional<TimePoint>& next() const { return next_; }

 private:
  Duration interval_;
  TimePoint began_;
  int64_t began_epoch_s_;
  std::optional<TimePoint> next_;
  int64_t last_timestamp_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_NOTICE_SCHEDULE_H_
