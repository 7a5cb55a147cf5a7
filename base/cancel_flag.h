// SPDX-License-Identifier: Apache-2.0
// Lets one thread end the waiting of others.
#ifndef HVDRAY_BASE_CANCEL_FLAG_H_
#define HVDRAY_BASE_CANCEL_FLAG_H_

#include <condition_variable>
#include <mutex>

#include "base/types.h"

namespace hvdray {

/// Set once, never cleared. Threads: any.
class CancelFlag {
 public:
  /// Blocks for `duration`, or until Cancel(). Returns false if cancelled, also before the call.
  bool Sleep(Duration duration) {
    std::unique_lock lock(mutex_);
    return !wakeup_.wait_for(lock, duration, [this] { return is_cancelled_; });
  }

  /// Ends all current and later Sleep() calls. Returns at once.
  void Cancel() {
    const std::lock_guard lock(mutex_);
    is_cancelled_ = true;
    wakeup_.notify_all();
  }

 private:
  std::mutex mutex_;  // guards is_cancelled_
  std::condition_variable wakeup_;
  bool is_cancelled_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_BASE_CANCEL_FLAG_H_
