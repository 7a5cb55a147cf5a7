// SPDX-License-Identifier: Apache-2.0
#include "agent/stdin_pump.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace hvdray {

StdinPump::StdinPump(Loop& loop, UniqueFd pipe, std::function<void(uint32_t)> on_consumed)
    : loop_(loop), pipe_(std::move(pipe)), on_consumed_(std::move(on_consumed)) {}

Status StdinPump::Write(std::string bytes, bool is_end) {
  if (queued_bytes_ + bytes.size() > kStdinWindowBytes) {
    return {ErrorCode::kProtocolError, "stdin beyond its credit"};
  }
  if (!bytes.empty()) {
    queued_bytes_ += bytes.size();
    queue_.push_back(std::move(bytes));
  }
  is_end_ = is_end_ || is_end;
  Flush();
  return {};
}

void StdinPump::Close() {
  watch_.Cancel();
  pipe_.Reset();
  Flush();
}

void StdinPump::Flush() {
  uint32_t consumed = 0;
  while (!queue_.empty()) {
    const std::string& first = queue_.front();
    size_t taken = first.size() - sent_of_first_;
    if (pipe_.is_valid()) {
      const ssize_t n = ::write(pipe_.get(), first.data() + sent_of_first_, taken);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) break;
      if (n < 0) {
        watch_.Cancel();
        pipe_.Reset();  // EPIPE: the worker has closed its stdin.
        continue;
      }
      taken = static_cast<size_t>(n);
    }
    sent_of_first_ += taken;
    queued_bytes_ -= taken;
    consumed += static_cast<uint32_t>(taken);
    if (sent_of_first_ == first.size()) {
      queue_.pop_front();
      sent_of_first_ = 0;
    }
  }
  if (queue_.empty()) {
    watch_.Cancel();
    if (is_end_ && pipe_.is_valid()) {
      // A channel stays open, since what the worker writes is read from it. Fails for a pipe.
      ::shutdown(pipe_.get(), SHUT_WR);
      pipe_.Reset();
    }
  } else if (!watch_.is_active()) {
    watch_ = loop_.OnFd(pipe_.get(), FdEvent::kWrite, [this] { Flush(); });
  }
  if (consumed > 0) on_consumed_(consumed);
}

}  // namespace hvdray
