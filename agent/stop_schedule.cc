// SPDX-License-Identifier: Apache-2.0
#include "agent/stop_schedule.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace hvdray {

void StopSchedule::Stop(TimePoint now, Duration grace) {
  if (kill_at_) {
    if (term_at_) term_at_ = now;
    kill_at_ = std::min(*kill_at_, now + grace);
    return;
  }
  kill_at_ = now + grace;
  if (grace <= Duration::zero()) return;
  term_at_ = now;
  if (!is_interrupted_) return;
  term_at_ = kill_at_;
  kill_at_ = now + 2 * grace;
}

int StopSchedule::TakeDue(TimePoint now) {
  if (!kill_at_) return 0;
  if (now >= *kill_at_) {
    term_at_.reset();
    return std::exchange(is_killed_, true) ? 0 : SIGKILL;
  }
  if (!term_at_ || now < *term_at_) return 0;
  term_at_.reset();
  return SIGTERM;
}

}  // namespace hvdray
