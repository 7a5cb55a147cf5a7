// SPDX-License-Identifier: Apache-2.0
#include "agent/output_pump.h"

#include <sys/ioctl.h>
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

wire::StreamId StreamOf(size_t index) {
  constexpr std::array kStreams = {wire::StreamId::kStdout, wire::StreamId::kStderr,
                                   wire::StreamId::kChannel};
  return kStreams[index];
}

/// Bytes that can be read now.
size_t WaitingIn(const UniqueFd& fd) {
  int bytes = 0;
  if (!fd.is_valid() || ::ioctl(fd.get(), FIONREAD, &bytes) != 0 || bytes < 0) return 0;
  return static_cast<size_t>(bytes);
}

}  // namespace

OutputPump::OutputPump(Loop& loop, wire::Link& link, Generation generation,
                       std::function<void()> on_progress)
    : loop_(loop), link_(link), generation_(generation), on_progress_(std::move(on_progress)) {}

void OutputPump::Add(int rank, UniqueFd stdout_pipe, UniqueFd stderr_pipe, UniqueFd channel) {
  Rank& state = ranks_[rank];
  open_count_ += channel.is_valid() ? 3 : 2;
  state.streams[0].fd = std::move(stdout_pipe);
  state.streams[1].fd = std::move(stderr_pipe);
  state.streams[2].fd = std::move(channel);
  Rearm(rank);
}

void OutputPump::AddCredit(int rank, wire::StreamId stream, uint32_t bytes) {
  const auto found = ranks_.find(rank);
  if (found == ranks_.end()) return;
  uint64_t& credit = found->second.CreditOf(stream == wire::StreamId::kChannel ? 2 : 0);
  credit = std::min(credit + bytes, kMaxCreditHeld);
  Rearm(rank);
}

void OutputPump::Discard() {
  is_discarding_ = true;
  RearmAll();
}

std::optional<TimePoint> OutputPump::ReadErrors(int rank) {
  if (!ranks_.contains(rank)) return std::nullopt;
  OnReadable(rank, 1);
  return ranks_.at(rank).errors.erred();
}

void OutputPump::ForceEnd() {
  is_forced_ = true;
  RearmAll();
}

bool OutputPump::IsHeldBack() const {
  if (is_discarding_ || open_count_ == 0) return false;
  if (!link_.HasOutputRoom()) return true;
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& entry) {
    const Rank& state = entry.second;
    for (size_t i = 0; i < state.streams.size(); ++i) {
      if (state.streams[i].fd.is_valid() && state.CreditOf(i) == 0) return true;
    }
    return false;
  });
}

void OutputPump::RearmAll() {
  for (const auto& [rank, state] : ranks_) Rearm(rank);
}

void OutputPump::Rearm(int rank) {
  Rank& state = ranks_.at(rank);
  for (size_t i = 0; i < state.streams.size(); ++i) {
    Stream& stream = state.streams[i];
    if (!stream.fd.is_valid() || !MayRead(state, i)) {
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

bool OutputPump::MayRead(const Rank& state, size_t index) const {
  if (is_discarding_) return true;
  if (index == kChannel && state.looked_for[0] + state.looked_for[1] > 0) return false;
  return state.CreditOf(index) > 0 && link_.HasOutputRoom();
}

void OutputPump::OnReadable(int rank, size_t index) {
  Rank& state = ranks_.at(rank);
  for (int i = 0; i < kReadsPerWakeup; ++i) {
    if (index == kChannel) ReadPrinted(rank, state);
    if (!MayRead(state, index)) break;
    if (ReadOnce(rank, state, index)) break;
  }
  if (is_forced_ || !MayRead(state, index)) Rearm(rank);
}

// No more than there is at a look: another writer of these pipes may never pause.
void OutputPump::ReadPrinted(int rank, Rank& state) {
  if (is_discarding_) return;
  if (state.LookedFor(kChannel) == 0) {
    // First: what is printed after this look belongs to a later message. 1: for its end.
    state.LookedFor(kChannel) = std::max<size_t>(WaitingIn(state.streams[kChannel].fd), 1);
    for (const size_t index : {0, 1}) state.LookedFor(index) = WaitingIn(state.streams[index].fd);
  }
  for (const size_t index : {0, 1}) {
    while (state.LookedFor(index) > 0 && MayRead(state, index)) ReadOnce(rank, state, index);
    if (!MayRead(state, index)) Rearm(rank);
  }
}

bool OutputPump::ReadOnce(int rank, Rank& state, size_t index) {
  static thread_local std::array<char, kOutputFrameBytes> buffer;
  Stream& stream = state.streams[index];
  if (!stream.fd.is_valid()) return true;
  size_t wanted = buffer.size();
  if (!is_discarding_) {
    wanted = std::min<uint64_t>(wanted, state.CreditOf(index));
    if (index == kChannel) wanted = std::min(wanted, state.LookedFor(kChannel));
  }
  const ssize_t n = ::read(stream.fd.get(), buffer.data(), wanted);
  if (n < 0 && errno == EINTR) return false;
  if (n < 0 && errno == EAGAIN) {
    if (is_forced_) End(rank, state, index);
    state.LookedFor(index) = 0;
    return true;
  }
  if (n <= 0) {
    // A socket's peer that ends without having read all that it was sent resets it.
    if (n < 0 && errno != ECONNRESET) {
      Log(LogLevel::kWarning, "agent", "rank={}: {}", rank,
          ErrnoStatus("read output", errno).message());
    }
    End(rank, state, index);
    return true;
  }
  const auto count = static_cast<size_t>(n);
  size_t& looked_for = state.LookedFor(index);
  const bool is_last = looked_for > 0 && count >= looked_for;
  looked_for -= std::min(looked_for, count);
  if (!is_discarding_) {
    state.CreditOf(index) -= count;
    if (index == 1) state.errors.Feed(ByteView(buffer.data(), count), loop_.Now());
    link_.Send({generation_,
                wire::Output{rank, StreamOf(index), false, std::string(buffer.data(), count)}});
    if (is_last && index != kChannel) Rearm(rank);  // the channel waits for it
  }
  if (is_forced_) {
    stream.forced_bytes += count;
    if (stream.forced_bytes >= 2 * kForcedLimitBytes) End(rank, state, index);
  }
  return !is_forced_ && (index == kChannel ? is_last : count < wanted);
}

void OutputPump::End(int rank, Rank& state, size_t index) {
  state.streams[index].watch.Cancel();
  state.streams[index].fd.Reset();
  state.LookedFor(index) = 0;
  --open_count_;
  if (!is_discarding_) link_.Send({generation_, wire::Output{rank, StreamOf(index), true, {}}});
  on_progress_();
}

}  // namespace hvdray
