// Follows one file in a Ray node's logs folder from the client: every byte once, in order, whatever
// happens to the connection.
#ifndef HVDRAY_CLUSTER_RAY_LOG_FOLLOWER_H_
#define HVDRAY_CLUSTER_RAY_LOG_FOLLOWER_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "cluster/ray/dashboard_client.h"

namespace hvdray {

/// Blocks a thread of its own (base/blocking_pool.h) for as long as it follows. A new connection
/// reads the file from its start and skips what was handed out.
class RayLogFollower {
 public:
  struct Options {
    std::string node_id;
    std::string file_name;
    uint64_t offset = 0;                                   ///< Bytes that the caller has already.
    Duration first_pause{std::chrono::milliseconds(100)};  ///< After a failure; doubles,
    Duration longest_pause{std::chrono::seconds(2)};       ///< up to this.
  };
  struct Handlers {
    /// Bytes that are new; false: enough.
    std::function<bool(ByteView piece)> take;
    /// The connection is lost, or there is no such file yet. Called before each pause, on the
    /// following thread. Optional.
    std::function<void(const Status& why)> on_pause;
  };

  RayLogFollower(RayAccess access, Options options);

  /// Returns success when `take` has had enough, kCancelled after Cancel(), or at once what trying
  /// again can't mend (kRayDenied, kUsage, kFileUnreadable). Everything else is tried again without
  /// end: who follows also watches the job.
  Status Follow(const Handlers& handlers);

  /// From any thread; later calls of Follow() end at once.
  void Cancel();

  /// Bytes handed out, plus Options::offset. From within handlers, or when nobody follows.
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
