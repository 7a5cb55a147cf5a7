// SPDX-License-Identifier: Apache-2.0
// Memory that all ranks of one machine map, and how they wait for each other in it. Knows nothing
// of collectives: shm_communicator.cc has the algorithms, shm_meeting.h how ranks come by the
// memory.
//
// The memory: a header, a bell, three counters for each rank, two for each ordered pair of ranks,
// kSlots slots of kSlotBytes for each rank, two places of kMostPlaceBytes where there are two ranks
// (the pages behind kPlaceBytes of each are taken by GrowPlaces()), a ring of bytes for each
// ordered pair (its pages are taken with the pair's first message).
//
// A counter only grows, and only its owner adds to it: what a rank has written before it posts a
// step can be read by all who have seen that step. Steps count modulo 2^31, and a counter must not
// be more than kMostBehind steps behind those that are waited for. Bit 31 says that the owner will
// post no more.
#ifndef HVDRAY_COLLECTIVE_SHM_SEGMENT_H_
#define HVDRAY_COLLECTIVE_SHM_SEGMENT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// 128 bytes: processors fetch cache lines in pairs.
struct alignas(128) ShmCounter {
  std::atomic<uint32_t> value{0};
  std::atomic<uint32_t> sleepers{0};  ///< Who posts wakes them.
  std::atomic<uint32_t> note{0};      ///< What the owner says with the step.
};

/// One rank's mapping of the memory; owns it, the descriptor and the thread that watches the
/// others. Threads: one caller at a time, but for Abort() and CheckAlive().
class ShmSegment {
 public:
  static constexpr size_t kSlots = 4;
  static constexpr size_t kSlotBytes = size_t{256} << 10;
  static constexpr size_t kPlaceBytes = size_t{128} << 10;
  static constexpr size_t kMostPlaceBytes = size_t{2} << 20;
  static constexpr size_t kTokenBytes = 32;

  /// What a rank has done for a step.
  enum Phase : uint8_t { kWritten, kReduced, kDone };
  static constexpr size_t kPhases = 3;
  static constexpr uint32_t kMostBehind = uint32_t{1} << 30;

  /// New memory for `pids.size()` ranks, their processes in the order of ranks. token: kTokenBytes,
  /// by which the others know the memory. Errors: kOutOfResources (no memory, or more than a file
  /// may have), kSystem.
  static Result<UniqueFd> Create(std::span<const pid_t> pids, std::string_view token);

  /// Maps what Create() made. Starts a thread that watches the other ranks' processes: when one
  /// has died, all waits of all ranks end. Errors: kNotSupported when it is other memory, or names
  /// other processes than this machine's; kOutOfResources, kSystem.
  static Result<std::unique_ptr<ShmSegment>> Open(UniqueFd fd, int rank, std::string_view token,
                                                  Duration timeout);

  ShmSegment(const ShmSegment&) = delete;
  ShmSegment& operator=(const ShmSegment&) = delete;
  /// Says that this rank will post no more.
  ~ShmSegment();

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// What errors call the ranks: where these are some of `size` ranks.
  void NameRanks(std::vector<int> names, int size);

  /// Rank's slot for `step`; step % kSlots share one. Only that rank writes it, but between its
  /// kWritten and kReduced.
  char* Slot(int rank, uint32_t step) const {
    return slots_ + (static_cast<size_t>(rank) * kSlots + step % kSlots) * kSlotBytes;
  }

  /// Of two ranks: one of two places. The caller decides who writes which. It begins in the middle
  /// of a page, and buffers mostly at the beginning of one: a load whose address has the last 12
  /// bits of a store a moment ago waits for it.
  char* Place(size_t index) const { return places_ + index * kMostPlaceBytes; }
  /// Whether there is memory for places of kMostPlaceBytes, which this takes. One rank's call is
  /// enough.
  bool GrowPlaces();

  /// Says that this rank has done `phase` of `step`: steps of a phase only grow.
  void Post(Phase phase, uint32_t step) { Post(CounterOf(rank_, phase), step); }
  /// The same, with a number for those who have waited for it: NoteOf(), until the next one.
  void PostWith(Phase phase, uint32_t step, uint32_t note) {
    CounterOf(rank_, phase).note.store(note, std::memory_order_relaxed);
    Post(phase, step);
  }
  uint32_t NoteOf(int peer, Phase phase) const {
    return CounterOf(peer, phase).note.load(std::memory_order_relaxed);
  }
  /// Blocks until `peer` has posted `step` or a later one. Errors: kAborted, kDeadlineExceeded.
  Status Wait(int peer, Phase phase, uint32_t step) {
    return WaitFor(CounterOf(peer, phase), step, peer);
  }
  /// As Wait(), for all other ranks.
  Status WaitAll(Phase phase, uint32_t step);
  /// How many waits took longer than a peer that runs lets this rank wait.
  uint32_t long_waits() const { return long_waits_; }

  /// Writes to the ring from this rank to `peer`; blocks while it is full. Errors: as Wait(), and
  /// kOutOfResources, which ends the communicator.
  Status Send(int peer, const char* data, size_t size);
  /// Reads from the ring from `peer` to this rank; blocks while it is empty. Errors: as Send().
  Status Receive(int peer, char* data, size_t size);

  /// Says to all ranks that `step` is wanted: a word of all, which only grows. Threads: any.
  void Ring(uint32_t step);
  /// Blocks until somebody has rung for `step` or a later one; false: `deadline` came first
  /// (TimePoint::max(): there is none). Errors: kAborted.
  Result<bool> AwaitRing(uint32_t step, TimePoint deadline);

  /// How long others may take from now on; at first what Open() was told.
  void SetTimeout(Duration timeout) { timeout_ = timeout; }

  /// Has all waits of all ranks end with kAborted, for ever. Threads: any.
  void Abort();
  /// Ok, or kAborted with the reason.
  Status CheckAlive() const;

 private:
  struct Header;
  std::string Name(int rank) const;
  struct RingOfBytes {
    ShmCounter* written;  ///< Bytes, modulo 2^31.
    ShmCounter* read;
    char* data;
    uint64_t offset;  ///< Of data in the memory.
  };

  ShmSegment(UniqueFd fd, char* memory, size_t bytes, int rank, int size, Duration timeout);
  ShmCounter& CounterOf(int rank, Phase phase) const {
    return counters_[static_cast<size_t>(rank) * kPhases + phase];
  }
  static bool HasReached(uint32_t value, uint32_t step) {
    return ((value - step) & kStepMask) < kMostBehind;
  }
  static void Post(ShmCounter& counter, uint32_t value);
  Status WaitFor(ShmCounter& counter, uint32_t step, int peer) {
    if (HasReached(counter.value.load(std::memory_order_acquire), step)) return {};
    return WaitLong(counter, step, peer);
  }
  Status WaitLong(ShmCounter& counter, uint32_t step, int peer);
  RingOfBytes RingFromTo(int sender, int receiver) const;
  Status TakePages(int sender, int receiver);
  Status WatchPeers();
  static void End(ShmCounter& counter);
  void EndCountersOf(int rank);
  void AbortFor(uint32_t reason);

  static constexpr uint32_t kStepMask = 0x7FFFFFFF;

  UniqueFd fd_;
  char* memory_;
  size_t bytes_;
  int rank_;
  int size_;
  Duration timeout_;
  std::vector<int> names_;  ///< Empty: their numbers here.
  int named_size_ = 0;
  Header* header_;
  ShmCounter* bell_;
  ShmCounter* counters_;
  ShmCounter* ring_counters_;
  char* slots_;
  char* places_;
  char* rings_;
  size_t ring_bytes_;
  int spins_;
  int yields_;
  uint32_t long_waits_ = 0;
  bool has_large_places_ = false;
  std::vector<bool> has_pages_;  ///< Of rings, by peer: of those to it, then of those from it.
  std::vector<UniqueFd> pidfds_;
  UniqueFd stop_;
  std::thread watcher_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_SHM_SEGMENT_H_
