// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/log_follower.h"

#include <algorithm>
#include <utility>

namespace hvdray {
namespace {

bool IsWorthAnotherTry(ErrorCode code) {
  return code == ErrorCode::kRayUnreachable || code == ErrorCode::kRayFailed;
}

}  // namespace

RayLogFollower::RayLogFollower(RayAccess access, Options options)
    : client_(std::move(access)), options_(std::move(options)), offset_(options_.offset) {}

Status RayLogFollower::Follow(const Handlers& handlers) {
  Duration pause = options_.first_pause;
  while (true) {
    uint64_t to_skip = offset_;
    Status ended = client_.StreamLog(options_.node_id, options_.file_name, [&](ByteView piece) {
      const size_t skipped = std::min<uint64_t>(to_skip, piece.size());
      to_skip -= skipped;
      piece.remove_prefix(skipped);
      if (piece.empty()) return true;
      pause = options_.first_pause;
      offset_ += piece.size();
      return handlers.take(piece);
    });
    if (!IsWorthAnotherTry(ended.code())) return ended;
    if (handlers.on_pause) handlers.on_pause(ended);
    if (!Pause(pause)) return {ErrorCode::kCancelled, "given up"};
    pause = std::min(2 * pause, options_.longest_pause);
  }
}

void RayLogFollower::Cancel() {
  client_.Cancel();
  const std::lock_guard lock(mutex_);
  is_cancelled_ = true;
  wakeup_.notify_all();
}

bool RayLogFollower::Pause(Duration pause) {
  std::unique_lock lock(mutex_);
  return !wakeup_.wait_for(lock, pause, [this] { return is_cancelled_; });
}

}  // namespace hvdray
