// SPDX-License-Identifier: Apache-2.0
#include "agent/stdin_pump.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/passed_descriptors.h"
#include "wire/message.h"

namespace hvdray {

StdinPump::StdinPump(Loop& loop, UniqueFd pipe, std::function<void(uint32_t)> on_consumed)
    : loop_(loop), pipe_(std::move(pipe)), on_consumed_(std::move(on_consumed)) {}

StdinPump::StdinPump(Loop& loop, std::function<void(uint32_t)> on_consumed)
    : loop_(loop), is_awaited_(true), on_consumed_(std::move(on_consumed)) {}

void StdinPump::Open(UniqueFd pipe) {
  pipe_ = std::move(pipe);
  is_awaited_ = false;
  Flush();
}

Status StdinPump::Write(std::string bytes, bool is_end) {
  if (queued_bytes_ + bytes.size() > wire::kStdinWindowBytes) {
    return {ErrorCode::kProtocolError, "stdin beyond its credit"};
  }
  if (!bytes.empty()) {
    queued_bytes_ += bytes.size();
    queue_.push_back({.bytes = std::move(bytes)});
  }
  is_end_ = is_end_ || is_end;
  Flush();
  return {};
}

void StdinPump::WriteWithDescriptor(std::string bytes, UniqueFd descriptor) {
  queue_.push_back(
      {.bytes = std::move(bytes), .descriptor = std::move(descriptor), .is_credited = false});
  Flush();
}

ssize_t StdinPump::Send(Item& item) {
  const char* from = item.bytes.data() + sent_of_first_;
  const size_t size = item.bytes.size() - sent_of_first_;
  if (!item.descriptor.is_valid()) return ::write(pipe_.get(), from, size);
  const int descriptor = item.descriptor.get();
  const ssize_t n = SendWithDescriptors(pipe_.get(), {from, size}, {&descriptor, 1});
  if (n > 0) item.descriptor.Reset();
  return n;
}

void StdinPump::Close() {
  watch_.Cancel();
  pipe_.Reset();
  is_awaited_ = false;
  Flush();
}

void StdinPump::Flush() {
  if (is_awaited_) return;
  uint32_t consumed = 0;
  while (!queue_.empty()) {
    Item& first = queue_.front();
    size_t taken = first.bytes.size() - sent_of_first_;
    if (pipe_.is_valid()) {
      const ssize_t n = Send(first);
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
    if (first.is_credited) {
      queued_bytes_ -= taken;
      consumed += static_cast<uint32_t>(taken);
    }
    if (sent_of_first_ == first.bytes.size()) {
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
