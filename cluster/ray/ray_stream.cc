// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "cluster/ray/dashboard_client.h"

namespace hvdray {
namespace {

// Limit of bytes posted to the loop and not processed yet.
constexpr size_t kMaxAhead = size_t{4} << 20;
// Of the job's own log, only its last line is needed.
constexpr size_t kLogTail = size_t{16} << 10;
// A new job has no stream yet, and the user waits for its first line.
constexpr Duration kFirstPause = std::chrono::milliseconds(50);
constexpr Duration kLongestPause = std::chrono::milliseconds(400);

std::string LastLine(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace

/// The state that a reading thread and the loop share.
class RayStream::Flow {
 public:
  Flow(RayAccess access, RayLogFollower::Options options)
      : client(access.Copy()), follower(std::move(access), std::move(options)) {}

  /// Called by the thread; false if no more is wanted.
  bool Wait(size_t bytes) {
    std::unique_lock lock(mutex_);
    wakeup_.wait(lock, [this] { return is_closed_ || (!is_busy_ && ahead_ < kMaxAhead); });
    ahead_ += bytes;
    return !is_closed_;
  }
  void Took(size_t bytes) {
    const std::lock_guard lock(mutex_);
    ahead_ -= std::min(bytes, ahead_);
    wakeup_.notify_all();
  }
  void SetBusy(bool is_busy) {
    const std::lock_guard lock(mutex_);
    is_busy_ = is_busy;
    wakeup_.notify_all();
  }
  void Close() {
    {
      const std::lock_guard lock(mutex_);
      is_closed_ = true;
      wakeup_.notify_all();
    }
    follower.Cancel();
    client.Cancel();
  }
  bool is_closed() {
    const std::lock_guard lock(mutex_);
    return is_closed_;
  }

  DashboardClient client;
  RayLogFollower follower;

 private:
  std::mutex mutex_;  // guards the members below
  std::condition_variable wakeup_;
  size_t ahead_ = 0;
  bool is_busy_ = false;
  bool is_closed_ = false;
};

RayStream::RayStream(Loop& loop, BlockingPool& pool, RayAccess access, std::string job_id,
                     std::string suffix, Handlers handlers)
    : loop_(loop),
      pool_(pool),
      access_(std::move(access)),
      job_id_(std::move(job_id)),
      first_suffix_(std::move(suffix)),
      suffix_(first_suffix_),
      handlers_(std::move(handlers)) {}

RayStream::~RayStream() { Stop(); }

void RayStream::Stop() {
  if (flow_) flow_->Close();
  flow_.reset();
}

void RayStream::SetBusy(bool is_busy) {
  if (is_busy == is_busy_) return;
  is_busy_ = is_busy;
  if (flow_) flow_->SetBusy(is_busy);
}

void RayStream::OnPiece(const std::string& bytes) {
  offset_ += bytes.size();
  handlers_.on_bytes(bytes);  // may continue in another file
}

void RayStream::GoOnIn(uint32_t file) {
  suffix_ = fmt::format("{}.{}", first_suffix_, file);
  offset_ = 0;
  if (is_reading_rest_) return ReadRest();
  Follow(node_);
}

void RayStream::Follow(const std::string& node) {
  Stop();
  is_reading_rest_ = false;
  node_ = node;
  auto flow = std::make_shared<Flow>(
      access_.Copy(), RayLogFollower::Options{.node_id = node_,
                                              .file_name = RayStreamName(job_id_, suffix_),
                                              .offset = offset_,
                                              .first_pause = kFirstPause,
                                              .longest_pause = kLongestPause});
  flow_ = flow;
  flow->SetBusy(is_busy_);
  pool_.Run<bool>(
      [this, flow, &loop = loop_] {
        const auto take = [&](ByteView piece) {
          if (!flow->Wait(piece.size())) return false;
          loop.Post([this, flow, bytes = std::string(piece)] {
            // A closed flow may belong to a destroyed stream.
            if (flow->is_closed()) return;
            flow->Took(bytes.size());
            OnPiece(bytes);
          });
          return true;
        };
        return flow->follower.Follow({.take = take, .on_pause = nullptr}).ok();
      },
      [](bool /*is_enough*/) {});
}

void RayStream::ReadRest() {
  Stop();
  is_reading_rest_ = true;
  auto flow = std::make_shared<Flow>(access_.Copy(), RayLogFollower::Options{});
  flow_ = flow;
  flow->SetBusy(is_busy_);
  struct Rest {
    std::string last_line;
  };
  pool_.Run<Rest>(
      [this, flow, &loop = loop_, node = node_, job_id = job_id_, suffix = suffix_,
       begin = offset_] {
        uint64_t to_skip = begin;
        const auto take = [&](ByteView piece) {
          const size_t skipped = static_cast<size_t>(std::min<uint64_t>(to_skip, piece.size()));
          to_skip -= skipped;
          piece.remove_prefix(skipped);
          if (piece.empty()) return true;
          if (!flow->Wait(piece.size())) return false;
          loop.Post([this, flow, bytes = std::string(piece)] {
            if (flow->is_closed()) return;
            flow->Took(bytes.size());
            OnPiece(bytes);
          });
          return true;
        };
        // Both may be missing: a job that never ran has no stream, and an old Ray has other files.
        (void)flow->client.ReadLog(node, RayStreamName(job_id, suffix), take).ok();
        std::string log;
        (void)flow->client
            .ReadLog(node, RayJobLogName(job_id),
                     [&log](ByteView piece) {
                       log.append(piece);
                       if (log.size() > 2 * kLogTail) log.erase(0, log.size() - kLogTail);
                       return true;
                     })
            .ok();
        return Rest{LastLine(log)};
      },
      // After all posted pieces.
      [this, flow](const Rest& rest) {
        if (!flow->is_closed()) handlers_.on_rest(rest.last_line);
      });
}

std::string RayStreamName(const std::string& job_id, const std::string& suffix) {
  return fmt::format("hvdray_{}.{}", job_id, suffix);
}

}  // namespace hvdray
