// SPDX-License-Identifier: Apache-2.0
#include "agent/output_pump.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/log.h"

namespace hvdray {
namespace {

constexpr int kReadsPerWakeup = 4;  // One busy worker must not starve the others.
// The largest pipe that the agent requests: more bytes after the sweep come from a live writer that
// the sweep could not reach.
constexpr size_t kForcedLimitBytes = size_t{1} << 20;

}  // namespace

OutputPump::OutputPump(Loop& loop, Handlers handlers)
    : loop_(loop), handlers_(std::move(handlers)) {}

void OutputPump::Add(int rank, UniqueFd stdout_pipe, UniqueFd stderr_pipe) {
  Rank& state = ranks_[rank];
  state.streams[0].fd = std::move(stdout_pipe);
  state.streams[1].fd = std::move(stderr_pipe);
  open_count_ += 2;
  Rearm(rank);
}

void OutputPump::AddCredit(int rank, uint32_t bytes) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  found->second.credit = std::min(found->second.credit + bytes, kMaxCreditHeld);
  Rearm(rank);
}

void OutputPump::OnRoom() { RearmAll(); }

void OutputPump::Discard() {
  is_discarding_ = true;
  RearmAll();
}

void OutputPump::ReadErrors(int rank) {
  if (ranks_.contains(rank)) OnReadable(rank, 1);
}

void OutputPump::ForceEnd() {
  is_forced_ = true;
  RearmAll();
}

bool OutputPump::IsHeldBack() const {
  if (is_discarding_ || open_count_ == 0) return false;
  if (!handlers_.has_room()) return true;
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    const Rank& state = entry.second;
    return state.credit == 0 && (state.streams[0].fd.is_valid() || state.streams[1].fd.is_valid());
  });
}

void OutputPump::RearmAll() {
  for (const auto& [rank, state] : ranks_) Rearm(rank);
}

void OutputPump::Rearm(int rank) {
  Rank& state = ranks_.at(rank);
  const bool may_read = is_discarding_ || (state.credit > 0 && handlers_.has_room());
  for (size_t i = 0; i < state.streams.size(); ++i) {
    Stream& stream = state.streams[i];
    if (!stream.fd.is_valid() || !may_read) {
      stream.watch.Cancel();
    } else if (is_forced_) {
      // An empty pipe without EOF never becomes readable, so read it in any case.
      stream.watch = loop_.After(Duration::zero(), [this, rank, i] { OnReadable(rank, i); });
    } else if (!stream.watch.is_active()) {
      stream.watch =
          loop_.OnFd(stream.fd.get(), FdEvent::kRead, [this, rank, i] { OnReadable(rank, i); });
    }
  }
}

void OutputPump::OnReadable(int rank, size_t index) {
  Rank& state = ranks_.at(rank);
  for (int i = 0; i < kReadsPerWakeup; ++i) {
    if (!is_discarding_ && (state.credit == 0 || !handlers_.has_room())) break;
    if (ReadOnce(rank, state, index)) break;
  }
  const bool may_read = is_discarding_ || (state.credit > 0 && handlers_.has_room());
  if (is_forced_ || !may_read) Rearm(rank);
}

bool OutputPump::ReadOnce(int rank, Rank& state, size_t index) {
  static thread_local std::array<char, kOutputFrameBytes> buffer;
  Stream& stream = state.streams[index];
  if (!stream.fd.is_valid()) return true;
  const size_t wanted =
      is_discarding_ ? buffer.size() : std::min<uint64_t>(buffer.size(), state.credit);
  const ssize_t n = ::read(stream.fd.get(), buffer.data(), wanted);
  if (n < 0 && errno == EINTR) return false;
  if (n < 0 && errno == EAGAIN) {
    if (is_forced_) End(rank, state, index);
    return true;
  }
  if (n <= 0) {
    if (n < 0) {
      Log(LogLevel::kWarning, "agent", "rank={}: {}", rank,
          ErrnoStatus("read output", errno).message());
    }
    End(rank, state, index);
    return true;
  }
  const auto count = static_cast<size_t>(n);
  bytes_read_ += count;
  if (!is_discarding_) {
    state.credit -= count;
    Send(rank, index, std::string(buffer.data(), count), false);
  }
  if (is_forced_) {
    stream.forced_bytes += count;
    if (stream.forced_bytes >= 2 * kForcedLimitBytes) End(rank, state, index);
  }
  return count < wanted && !is_forced_;
}

void OutputPump::Send(int rank, size_t index, std::string bytes, bool is_end) {
  const wire::StreamId stream = index == 0 ? wire::StreamId::kStdout : wire::StreamId::kStderr;
  handlers_.send(wire::Output{rank, stream, is_end, std::move(bytes)});
}

void OutputPump::End(int rank, Rank& state, size_t index) {
  state.streams[index].watch.Cancel();
  state.streams[index].fd.Reset();
  --open_count_;
  if (!is_discarding_) Send(rank, index, {}, true);
  handlers_.on_progress();
}

}  // namespace hvdray
