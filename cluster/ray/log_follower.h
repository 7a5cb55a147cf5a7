// SPDX-License-Identifier: Apache-2.0
// Follows one file in a Ray node's log directory from the client: every byte once and in order,
// even when the connection breaks.
#ifndef HVDRAY_CLUSTER_RAY_LOG_FOLLOWER_H_
#define HVDRAY_CLUSTER_RAY_LOG_FOLLOWER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "cluster/ray/dashboard_client.h"

namespace hvdray {

/// Blocks its own thread (base/blocking_pool.h) as long as it follows. A new connection reads the
/// file from its start and skips the bytes that were delivered before.
class RayLogFollower {
 public:
  struct Options {
    std::string node_id;
    std::string file_name;
    uint64_t offset = 0;                                   ///< Bytes that the caller already has.
    Duration first_pause{std::chrono::milliseconds(100)};  ///< After a failure; doubles each time.
    Duration longest_pause{std::chrono::seconds(2)};       ///< Limit of the doubling.
  };
  struct Handlers {
    /// Receives new bytes. Returns false to end.
    std::function<bool(ByteView piece)> take;
    /// The connection is lost, or the file doesn't exist yet. Called before each pause, on the
    /// following thread. Optional.
    std::function<void(const Status& why)> on_pause;
  };

  RayLogFollower(RayAccess access, Options options);

  /// Returns success once `take` returns false, kCancelled after Cancel(), and at once errors that
  /// a retry can't fix (kRayDenied, kUsage, kFileUnreadable). Retries all other errors for ever:
  /// the caller also watches the job and cancels.
  Status Follow(const Handlers& handlers);

  /// Threads: any. Later calls of Follow() end at once.
  void Cancel();

  /// Delivered bytes, plus Options::offset. Call it within handlers or outside of Follow().
  uint64_t offset() const { return offset_; }

 private:
  bool Pause(Duration pause);

  DashboardClient client_;
  const Options options_;
  uint64_t offset_;

  std::mutex mutex_;  // guards the next
  bool is_cancelled_ = false;
  std::condition_variable wakeup_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_LOG_FOLLOWER_H_
