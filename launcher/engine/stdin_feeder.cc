// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/stdin_feeder.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/standard_streams.h"

namespace hvdray {
namespace {

constexpr size_t kChunkBytes = size_t{64} * 1024;

}  // namespace

StdinFeeder::StdinFeeder(Loop& loop, int fd, int rank, std::function<void(wire::Stdin)> send)
    : loop_(loop), fd_(fd), rank_(rank), send_(std::move(send)), is_pollable_(IsPollable(fd)) {}

void StdinFeeder::AddCredit(uint32_t bytes) {
  credit_ += bytes;
  Resume();
}

void StdinFeeder::Stop() {
  is_at_end_ = true;
  watch_.Cancel();
}

void StdinFeeder::Resume() {
  if (is_at_end_ || credit_ == 0 || watch_.is_active()) return;
  watch_ = is_pollable_ ? loop_.OnFd(fd_, FdEvent::kRead, [this] { ReadSome(); })
                        : loop_.Every(Duration::zero(), [this] { ReadSome(); });
}

void StdinFeeder::ReadSome() {
  std::array<char, kChunkBytes> buffer;
  const size_t wanted = std::min<uint64_t>(buffer.size(), credit_);
  const ssize_t n = ::read(fd_, buffer.data(), wanted);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  wire::Stdin frame;
  frame.rank = rank_;
  if (n > 0) {
    credit_ -= static_cast<uint64_t>(n);
    frame.bytes.assign(buffer.data(), static_cast<size_t>(n));
    if (credit_ == 0) watch_.Cancel();
  } else {
    // A terminal that hangs up returns EIO: end of input.
    frame.is_end = true;
    Stop();
  }
  send_(std::move(frame));
}

}  // namespace hvdray
