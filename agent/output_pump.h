// SPDX-License-Identifier: Apache-2.0
// Moves bytes from the workers' pipes and channels to Output frames, only as fast as credit and
// link permit: a slow reader slows the writers and never fills memory. What a worker has printed
// before it says something on its channel leaves first. Notes when an error began on stderr, and
// does not interpret the bytes otherwise. docs/protocol.md, "Credit".
#ifndef HVDRAY_AGENT_OUTPUT_PUMP_H_
#define HVDRAY_AGENT_OUTPUT_PUMP_H_

#include <array>
#include <functional>
#include <map>
#include <optional>

#include "agent/worker_error.h"
#include "base/fd.h"
#include "base/loop.h"
#include "wire/link.h"
#include "wire/message.h"

namespace hvdray {

/// Most credit kept for a rank: no correct launcher grants more.
inline constexpr uint64_t kMaxCreditHeld = uint64_t{64} << 20;
/// Most bytes in one Output frame.
inline constexpr size_t kOutputFrameBytes = size_t{64} << 10;

/// Owns the read ends. Threads: the loop's.
class OutputPump {
 public:
  /// `on_progress`: a stream has ended. Loop and link outlive the pump.
  OutputPump(Loop& loop, wire::Link& link, Generation generation,
             std::function<void()> on_progress);

  /// Takes ownership of the non-blocking read ends and starts reading. A rank starts with a credit
  /// of wire::kOutputWindowBytes for stdout and stderr and another one for its channel. `channel`:
  /// invalid without one.
  void Add(int rank, UniqueFd stdout_pipe, UniqueFd stderr_pipe, UniqueFd channel = {});
  /// Ignores unknown ranks and credit beyond kMaxCreditHeld.
  void AddCredit(int rank, wire::StreamId stream, uint32_t bytes);
  /// The link has room again.
  void OnRoom() { RearmAll(); }
  /// The launcher is gone: reads and drops further output, so that no writer blocks.
  void Discard();
  /// Reads that rank's stderr pipe now, as far as credit and link permit. Returns when its last
  /// error began; nullopt: no traceback yet.
  std::optional<TimePoint> ReadErrors(int rank);
  /// All writers should be gone: ends each stream once its pipe is empty, even without EOF.
  void ForceEnd();

  bool HasEnded() const { return open_count_ == 0; }
  /// A stream waits for credit or for the link, so its silence does not mean that it is idle.
  bool IsHeldBack() const;

 private:
  static constexpr size_t kChannel = 2;  // its index, after stdout and stderr
  struct Stream {
    UniqueFd fd;
    Watch watch;
    size_t forced_bytes = 0;  // Read since ForceEnd().
  };
  struct Rank {
    std::array<uint64_t, 2> credit = {wire::kOutputWindowBytes, wire::kOutputWindowBytes};
    std::array<Stream, kChannel + 1> streams;
    // Bytes that were there when the channel was looked at, and are still to be read: those of
    // stdout and stderr were printed before what the channel had, and leave first.
    std::array<size_t, kChannel + 1> looked_for = {};
    size_t& LookedFor(size_t index) { return looked_for.at(index); }
    // The window that a stream shares or has.
    uint64_t& CreditOf(size_t index) { return credit[index == kChannel ? 1 : 0]; }
    uint64_t CreditOf(size_t index) const { return credit[index == kChannel ? 1 : 0]; }
    ErrorClock errors;
  };

  void Rearm(int rank);
  void RearmAll();
  void OnReadable(int rank, size_t index);
  /// True: the pipe is empty for now, or has ended.
  bool ReadOnce(int rank, Rank& state, size_t index);
  void ReadPrinted(int rank, Rank& state);
  void End(int rank, Rank& state, size_t index);
  bool MayRead(const Rank& state, size_t index) const;

  Loop& loop_;
  wire::Link& link_;
  const Generation generation_;
  const std::function<void()> on_progress_;
  std::map<int, Rank> ranks_;
  size_t open_count_ = 0;
  bool is_discarding_ = false;
  bool is_forced_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_OUTPUT_PUMP_H_
