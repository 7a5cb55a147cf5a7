// SPDX-License-Identifier: Apache-2.0
// Collectives of ranks that share memory. Each works in rounds, one step of the segment each: a
// rank writes to its slot what the others need, and copies or reduces out of theirs. Large buffers
// take many rounds, whose phases overlap: while one rank still reduces round i, another already
// writes round i + 1. docs/collective.md has the costs.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "collective/backends.h"
#include "collective/reduce_kernels.h"

namespace hvdray {
namespace {

// Of each rank in a round: what is written by one and read by another fits their second-level
// caches with room for their own buffers.
constexpr size_t kRoundBytes = size_t{64} << 10;

size_t RoundsFor(size_t count, size_t per_round) { return (count + per_round - 1) / per_round; }

// Elements of a round: [start, start + count).
struct Range {
  size_t start = 0;
  size_t count = 0;
};

Range RangeOf(size_t round, size_t per_round, size_t count) {
  const size_t start = std::min(round * per_round, count);
  return {start, std::min(per_round, count - start)};
}

// Often enough for counters, seldom enough to cost nothing.
constexpr uint32_t kStepsBetweenPosts = ShmSegment::kMostBehind / 1024;

class ShmCommunicator : public Communicator {
 public:
  ShmCommunicator(std::unique_ptr<ShmSegment> segment, uint32_t joined, Duration operation_timeout)
      : Communicator(segment->rank(), segment->size()),
        segment_(std::move(segment)),
        operation_timeout_(operation_timeout),
        step_(joined),
        sources_(static_cast<size_t>(size())),
        own_place_(static_cast<size_t>(segment_->rank())) {
    UseTable({});
    segment_->Post(ShmSegment::kWritten, step_);
  }

  std::string_view backend() const override { return "shm"; }
  void EndMeeting() override {
    if (operation_timeout_ > Duration::zero()) segment_->SetTimeout(operation_timeout_);
  }
  void Abort() override { segment_->Abort(); }

  void UseTable(const AlgorithmTable& table) override {
    direct_bytes_ = size() == 2 ? std::min<size_t>(table.shm_direct_of_two, ShmSegment::kPlaceBytes)
                                : std::min<size_t>(table.shm_direct, ShmSegment::kSlotBytes);
  }

 private:
  Status Execute(const Operation& operation) override {
    HVDRAY_RETURN_IF_ERROR(segment_->CheckAlive());
    PostAll();
    switch (operation.kind) {
      case Collective::kAllReduce:
        // One exchange instead of two, for more to read.
        if (operation.count * SizeOf(operation.dtype) <= direct_bytes_) {
          return size() == 2 ? PairDirectly(operation) : AllReduceDirectly(operation);
        }
        return size() == 2 ? PairByOwners(operation) : ReduceByOwners(operation);
      case Collective::kReduce:
      case Collective::kReduceScatter:
        return ReduceByOwners(operation);
      case Collective::kBroadcast:
        return Broadcast(operation);
      case Collective::kAllGather:
        return AllGather(operation);
      case Collective::kAllToAll:
        return AllToAll(operation);
      case Collective::kGather:
        return Gather(operation);
      case Collective::kScatter:
        return Scatter(operation);
      case Collective::kBarrier:
        return Barrier();
      case Collective::kSend:
        return segment_->Send(operation.root, static_cast<const char*>(operation.send),
                              operation.count * SizeOf(operation.dtype));
      case Collective::kRecv:
        return segment_->Receive(operation.root, static_cast<char*>(operation.recv),
                                 operation.count * SizeOf(operation.dtype));
    }
    return {ErrorCode::kInternal, "unknown collective"};
  }

  // Not all operations post all phases. Before the counters fall too far behind: this rank has done
  // everything up to its last step.
  void PostAll() {
    if (step_ - posted_ < kStepsBetweenPosts) return;
    posted_ = step_;
    segment_->Post(ShmSegment::kReduced, step_);
    segment_->Post(ShmSegment::kDone, step_);
  }

  int DivisorOf(const Operation& operation) const {
    return operation.op == ReduceOp::kAverage ? size() : 1;
  }

  // Slots are used in turn: before a rank writes for `step`, all have read what was there before.
  // Every operation has read step s - 3 when it has written step s, so at the beginning of one the
  // counters that it looks at anyway say enough; kDone is for those of more rounds than slots,
  // where a rank may be ahead of others by all its slots.
  Status BeginWrite(uint32_t first, size_t round) {
    const uint32_t step = first + static_cast<uint32_t>(round);
    return round < ShmSegment::kSlots
               ? segment_->WaitAll(ShmSegment::kWritten, step - 1)
               : segment_->WaitAll(ShmSegment::kDone, step - ShmSegment::kSlots);
  }
  void EndRead(uint32_t first, size_t round, size_t rounds) {
    if (round + ShmSegment::kSlots >= rounds) return;
    segment_->Post(ShmSegment::kDone, first + static_cast<uint32_t>(round));
  }

  // Rounds of two phases: write(round, slot), then read(round, step), which waits for the peers
  // whose slots it reads.
  template <typename Write, typename Read>
  Status RunRounds(size_t rounds, const Write& write, const Read& read) {
    const uint32_t first = step_ + 1;
    step_ += static_cast<uint32_t>(rounds);
    for (size_t i = 0; i <= rounds; ++i) {
      if (i < rounds) {
        const uint32_t step = first + static_cast<uint32_t>(i);
        HVDRAY_RETURN_IF_ERROR(BeginWrite(first, i));
        write(i, Slot(rank(), step));
        segment_->Post(ShmSegment::kWritten, step);
      }
      if (i > 0) {
        HVDRAY_RETURN_IF_ERROR(read(i - 1, first + static_cast<uint32_t>(i - 1)));
        EndRead(first, i - 1, rounds);
      }
    }
    return {};
  }

  // The peers' slots, beginning with this rank's successor, so that not all read the same at once.
  template <typename Use>
  Status ForEachPeer(ShmSegment::Phase phase, uint32_t step, const Use& use) {
    for (int i = 1; i < size(); ++i) {
      const int peer = (rank() + i) % size();
      HVDRAY_RETURN_IF_ERROR(segment_->Wait(peer, phase, step));
      use(peer, Slot(peer, step));
    }
    return {};
  }

  // Takes a step and no slot.
  Status Barrier() {
    ++step_;
    ++steps_without_slot_;
    segment_->Post(ShmSegment::kWritten, step_);
    return segment_->WaitAll(ShmSegment::kWritten, step_);
  }

  // The longer ago a slot was used, the cheaper it is to write: its lines have left the other
  // processors' nearest caches.
  char* Slot(int rank, uint32_t step) const {
    return segment_->Slot(rank, step - steps_without_slot_);
  }

  Status AllReduceDirectly(const Operation& operation) {
    if (operation.count == 0) return {};
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    return RunRounds(
        1, [&](size_t, char* slot) { CopyBytes(slot, operation.send, bytes); },
        [&](size_t, uint32_t step) -> Status {
          HVDRAY_RETURN_IF_ERROR(segment_->WaitAll(ShmSegment::kWritten, step));
          for (int peer = 0; peer < size(); ++peer) {
            // What a rank has written, the others read now: its own it has elsewhere.
            sources_[static_cast<size_t>(peer)] =
                peer == rank() ? operation.send : Slot(peer, step);
          }
          FindReduce(operation.dtype, operation.op)(sources_.data(), sources_.size(),
                                                    operation.recv, nullptr, operation.count,
                                                    DivisorOf(operation));
          return {};
        });
  }

  // The slot that gets what `owner` reduces.
  char* ResultOf(size_t owner, uint32_t step) const {
    return Slot(static_cast<int>((owner + 1) % static_cast<size_t>(size())), step);
  }

  // Two ranks have two places that they write in turn, and no slots. A rank writes a line best when
  // it is the one that has read it last: then no other processor has to give it up. own_place_ is
  // the one that this rank has read to the end; the other rank may still read in its own.

  // Each writes all it has, and reads all that the other has: then the places change hands.
  Status PairDirectly(const Operation& operation) {
    if (operation.count == 0) return {};
    ++steps_without_slot_;
    CopyBytes(segment_->Place(own_place_), operation.send,
              operation.count * SizeOf(operation.dtype));
    segment_->Post(ShmSegment::kWritten, ++step_);
    own_place_ = 1 - own_place_;
    HVDRAY_RETURN_IF_ERROR(segment_->Wait(1 - rank(), ShmSegment::kWritten, step_));
    sources_[static_cast<size_t>(rank())] = operation.send;
    sources_[static_cast<size_t>(1 - rank())] = segment_->Place(own_place_);
    FindReduce(operation.dtype, operation.op)(sources_.data(), 2, operation.recv, nullptr,
                                              operation.count, DivisorOf(operation));
    return {};
  }

  // Of each round each rank owns a half: it gets the other's numbers for it in that one's place,
  // and leaves the result there. Who fetches that writes what the next round needs to the same
  // lines.
  Status PairByOwners(const Operation& operation) {
    if (operation.count == 0) return {};
    const size_t element = SizeOf(operation.dtype);
    const size_t line = kCacheLine / element;
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    const auto* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    const int peer = 1 - rank();
    char* own_place = segment_->Place(own_place_);
    char* peer_place = segment_->Place(1 - own_place_);
    Range result;  // what the peer has reduced of the last round; here in bytes
    for (size_t start = 0;;) {
      const size_t left = operation.count - start;
      const size_t half =
          std::min(half_bytes_ / element, ((left + 1) / 2 + line - 1) / line * line);
      const Range halves[] = {RangeOf(0, half, left), RangeOf(1, half, left)};
      const Range mine = halves[rank()];
      const Range theirs = {(start + halves[peer].start) * element, halves[peer].count * element};
      const size_t both = std::min(result.count, theirs.count);
      ExchangeBytes(own_place, recv + result.start, send + theirs.start, both);
      CopyBytes(recv + result.start + both, own_place + both, result.count - both);
      CopyBytes(own_place + both, send + theirs.start + both, theirs.count - both);
      if (left == 0) return {};
      result = theirs;
      ++steps_without_slot_;
      segment_->Post(ShmSegment::kWritten, ++step_);
      HVDRAY_RETURN_IF_ERROR(segment_->Wait(peer, ShmSegment::kWritten, step_));
      if (start == 0) long_waits_ = segment_->long_waits();  // for the other's program to come here
      const size_t mine_at = (start + mine.start) * element;
      sources_[static_cast<size_t>(rank())] = send + mine_at;
      sources_[static_cast<size_t>(peer)] = peer_place;
      reduce(sources_.data(), 2, peer_place, recv + mine_at, mine.count, DivisorOf(operation));
      HVDRAY_RETURN_IF_ERROR(EndHalves(peer));
      start += mine.count + halves[peer].count;
    }
  }

  // Halves that stay in the nearer caches are best where both ranks run. Where one often waits
  // until the other gets a processor, the fewer such waits the better. Both say whether they had to
  // since the last round, and so agree on the size of the next one.
  Status EndHalves(int peer) {
    const bool had_to_wait =
        std::exchange(long_waits_, segment_->long_waits()) != segment_->long_waits() &&
        segment_->GrowPlaces();
    segment_->PostWith(ShmSegment::kReduced, step_, had_to_wait ? 1 : 0);
    HVDRAY_RETURN_IF_ERROR(segment_->Wait(peer, ShmSegment::kReduced, step_));
    const bool has_waited = had_to_wait || segment_->NoteOf(peer, ShmSegment::kReduced) != 0;
    half_bytes_ = has_waited ? std::min(half_bytes_ * 4, ShmSegment::kMostPlaceBytes)
                             : std::max(half_bytes_ / 2, ShmSegment::kPlaceBytes);
    return {};
  }

  // Of each round, each rank owns a piece: all write what they have of it to their slots, the owner
  // reduces it (in the order of ranks, so that all get the same bits), and those who want the
  // result copy it from the owner's slot.
  Status ReduceByOwners(const Operation& operation) {
    if (operation.count == 0) return {};
    const size_t element = SizeOf(operation.dtype);
    const auto ranks = static_cast<size_t>(size());
    const bool is_scatter = operation.kind == Collective::kReduceScatter;
    const bool wants_all = operation.kind == Collective::kAllReduce ||
                           (operation.kind == Collective::kReduce && operation.root == rank());
    // A piece begins at a cache line of a slot.
    const size_t piece_bytes =
        std::min(ShmSegment::kSlotBytes / ranks, kRoundBytes) / kCacheLine * kCacheLine;
    const size_t most = piece_bytes / element;
    size_t rounds = 0;
    size_t piece_count = most;
    if (is_scatter) {
      rounds = RoundsFor(operation.count, piece_count);
    } else {
      rounds = RoundsFor(operation.count, most * ranks);
      // The rounds of one operation are of equal size, but whole cache lines.
      const size_t line = kCacheLine / element;
      const size_t equal = RoundsFor(operation.count, rounds * ranks);
      piece_count = std::min(most, (equal + line - 1) / line * line);
    }
    const auto* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    const ReduceFunction reduce = FindReduce(operation.dtype, operation.op);
    // Where rank `owner`'s piece of a round is in a whole buffer.
    const auto piece = [&](size_t round, size_t owner) -> Range {
      if (is_scatter) {
        Range range = RangeOf(round, piece_count, operation.count);
        range.start += owner * operation.count;
        return range;
      }
      return RangeOf(round * ranks + owner, piece_count, operation.count);
    };
    const auto me = static_cast<size_t>(rank());

    const uint32_t first = step_ + 1;
    step_ += static_cast<uint32_t>(rounds);
    for (size_t i = 0; i < rounds + 2; ++i) {
      if (i < rounds) {
        const uint32_t step = first + static_cast<uint32_t>(i);
        HVDRAY_RETURN_IF_ERROR(BeginWrite(first, i));
        char* slot = Slot(rank(), step);
        for (size_t k = 1; k < ranks; ++k) {
          const size_t owner = (me + k) % ranks;
          const Range range = piece(i, owner);
          if (range.count == 0) continue;
          CopyBytes(slot + owner * piece_bytes, send + range.start * element,
                    range.count * element);
        }
        segment_->Post(ShmSegment::kWritten, step);
      }
      if (i >= 1 && i - 1 < rounds) {
        const uint32_t step = first + static_cast<uint32_t>(i - 1);
        HVDRAY_RETURN_IF_ERROR(segment_->WaitAll(ShmSegment::kWritten, step));
        const Range range = piece(i - 1, me);
        if (range.count > 0) {
          for (size_t peer = 0; peer < ranks; ++peer) {
            sources_[peer] = Slot(static_cast<int>(peer), step) + me * piece_bytes;
          }
          sources_[me] = send + range.start * element;
          if (is_scatter) {
            char* own = recv + (range.start - me * operation.count) * element;
            reduce(sources_.data(), ranks, own, nullptr, range.count, DivisorOf(operation));
          } else {
            // Into the slot of the next rank, whose lines have just come here to be read: a place
            // of our own would have to be fetched, too.
            char* shared = ResultOf(me, step) + me * piece_bytes;
            char* own = wants_all ? recv + range.start * element : nullptr;
            reduce(sources_.data(), ranks, shared, own, range.count, DivisorOf(operation));
            segment_->Post(ShmSegment::kReduced, step);
          }
        }
      }
      if (i >= 2) {
        const uint32_t step = first + static_cast<uint32_t>(i - 2);
        for (size_t k = 1; wants_all && k < ranks; ++k) {
          const size_t owner = (me + k) % ranks;
          const Range range = piece(i - 2, owner);
          if (range.count == 0) continue;
          HVDRAY_RETURN_IF_ERROR(
              segment_->Wait(static_cast<int>(owner), ShmSegment::kReduced, step));
          CopyBytes(recv + range.start * element, ResultOf(owner, step) + owner * piece_bytes,
                    range.count * element);
        }
        EndRead(first, i - 2, rounds);
      }
    }
    return {};
  }

  Status Broadcast(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    const bool is_root = rank() == operation.root;
    return RunRounds(
        RoundsFor(bytes, kRoundBytes),
        [&](size_t round, char* slot) {
          const Range range = RangeOf(round, kRoundBytes, bytes);
          if (is_root) {
            CopyBytes(slot, static_cast<const char*>(operation.send) + range.start, range.count);
          }
        },
        [&](size_t round, uint32_t step) -> Status {
          if (is_root) return {};
          const Range range = RangeOf(round, kRoundBytes, bytes);
          HVDRAY_RETURN_IF_ERROR(segment_->Wait(operation.root, ShmSegment::kWritten, step));
          CopyBytes(static_cast<char*>(operation.recv) + range.start, Slot(operation.root, step),
                    range.count);
          return {};
        });
  }

  Status AllGather(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const auto ranks = static_cast<size_t>(size());
    std::vector<size_t> bytes(ranks, operation.count * element);
    for (size_t i = 0; i < operation.recv_counts.size(); ++i) {
      bytes[i] = operation.recv_counts[i] * element;
    }
    std::vector<size_t> places(ranks, 0);
    std::exclusive_scan(bytes.begin(), bytes.end(), places.begin(), size_t{0});
    auto* recv = static_cast<char*>(operation.recv);
    const auto me = static_cast<size_t>(rank());
    const auto* send = static_cast<const char*>(operation.send);
    return RunRounds(
        RoundsFor(*std::max_element(bytes.begin(), bytes.end()), kRoundBytes),
        [&](size_t round, char* slot) {
          const Range range = RangeOf(round, kRoundBytes, bytes[me]);
          if (range.count == 0) return;
          CopyBytes(slot, send + range.start, range.count);
          char* own = recv + places[me] + range.start;
          if (own != send + range.start) CopyBytes(own, send + range.start, range.count);
        },
        [&](size_t round, uint32_t step) {
          return ForEachPeer(ShmSegment::kWritten, step, [&](int peer, const char* slot) {
            const auto index = static_cast<size_t>(peer);
            const Range range = RangeOf(round, kRoundBytes, bytes[index]);
            if (range.count > 0) {
              CopyBytes(recv + places[index] + range.start, slot, range.count);
            }
          });
        });
  }

  Status Gather(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    const bool is_root = rank() == operation.root;
    const auto* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    return RunRounds(
        RoundsFor(bytes, kRoundBytes),
        [&](size_t round, char* slot) {
          const Range range = RangeOf(round, kRoundBytes, bytes);
          if (!is_root) {
            CopyBytes(slot, send + range.start, range.count);
            return;
          }
          char* own = recv + static_cast<size_t>(rank()) * bytes + range.start;
          if (own != send + range.start) CopyBytes(own, send + range.start, range.count);
        },
        [&](size_t round, uint32_t step) -> Status {
          if (!is_root) return {};
          const Range range = RangeOf(round, kRoundBytes, bytes);
          return ForEachPeer(ShmSegment::kWritten, step, [&](int peer, const char* slot) {
            CopyBytes(recv + static_cast<size_t>(peer) * bytes + range.start, slot, range.count);
          });
        });
  }

  // What a slot has room for when it has a piece for each rank.
  size_t PieceBytes() const {
    return std::min(ShmSegment::kSlotBytes / static_cast<size_t>(size()), kRoundBytes) /
           kCacheLine * kCacheLine;
  }

  Status Scatter(const Operation& operation) {
    const size_t bytes = operation.count * SizeOf(operation.dtype);
    const size_t piece_bytes = PieceBytes();
    const bool is_root = rank() == operation.root;
    const auto* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    return RunRounds(
        RoundsFor(bytes, piece_bytes),
        [&](size_t round, char* slot) {
          if (!is_root) return;
          const Range range = RangeOf(round, piece_bytes, bytes);
          for (size_t peer = 0; peer < static_cast<size_t>(size()); ++peer) {
            const char* source = send + peer * bytes + range.start;
            char* target =
                static_cast<int>(peer) == rank() ? recv + range.start : slot + peer * piece_bytes;
            if (target != source) CopyBytes(target, source, range.count);
          }
        },
        [&](size_t round, uint32_t step) -> Status {
          if (is_root) return {};
          const Range range = RangeOf(round, piece_bytes, bytes);
          HVDRAY_RETURN_IF_ERROR(segment_->Wait(operation.root, ShmSegment::kWritten, step));
          CopyBytes(recv + range.start,
                    Slot(operation.root, step) + static_cast<size_t>(rank()) * piece_bytes,
                    range.count);
          return {};
        });
  }

  Status AllToAll(const Operation& operation) {
    const size_t element = SizeOf(operation.dtype);
    const auto ranks = static_cast<size_t>(size());
    const auto me = static_cast<size_t>(rank());
    const auto bytes_of = [&](std::span<const size_t> counts) {
      std::vector<size_t> bytes(ranks, operation.count * element);
      for (size_t i = 0; i < counts.size(); ++i) bytes[i] = counts[i] * element;
      return bytes;
    };
    const std::vector<size_t> send_bytes = bytes_of(operation.send_counts);
    const std::vector<size_t> recv_bytes = bytes_of(operation.recv_counts);
    std::vector<size_t> send_places(ranks, 0);
    std::vector<size_t> recv_places(ranks, 0);
    std::exclusive_scan(send_bytes.begin(), send_bytes.end(), send_places.begin(), size_t{0});
    std::exclusive_scan(recv_bytes.begin(), recv_bytes.end(), recv_places.begin(), size_t{0});
    // All ranks take as many rounds as the pair with the most needs, which only that pair knows.
    uint64_t most = *std::max_element(send_bytes.begin(), send_bytes.end());
    if (!operation.send_counts.empty()) {
      HVDRAY_RETURN_IF_ERROR(AllReduceDirectly(
          {Collective::kAllReduce, &most, &most, 1, DataType::kInt64, ReduceOp::kMax}));
    }
    const size_t piece_bytes = PieceBytes();
    const auto* send = static_cast<const char*>(operation.send);
    auto* recv = static_cast<char*>(operation.recv);
    return RunRounds(
        RoundsFor(most, piece_bytes),
        [&](size_t round, char* slot) {
          for (size_t peer = 0; peer < ranks; ++peer) {
            const Range range = RangeOf(round, piece_bytes, send_bytes[peer]);
            if (range.count == 0) continue;
            const char* source = send + send_places[peer] + range.start;
            char* target =
                peer == me ? recv + recv_places[me] + range.start : slot + peer * piece_bytes;
            if (peer == me && range.start + range.count > recv_bytes[me]) continue;
            if (target != source) CopyBytes(target, source, range.count);
          }
        },
        [&](size_t round, uint32_t step) {
          return ForEachPeer(ShmSegment::kWritten, step, [&](int peer, const char* slot) {
            const auto index = static_cast<size_t>(peer);
            const Range range = RangeOf(round, piece_bytes, recv_bytes[index]);
            if (range.count > 0) {
              CopyBytes(recv + recv_places[index] + range.start, slot + me * piece_bytes,
                        range.count);
            }
          });
        });
  }

  std::unique_ptr<ShmSegment> segment_;
  Duration operation_timeout_;
  size_t direct_bytes_ = 0;
  uint32_t steps_without_slot_ = 0;
  uint32_t step_;        // The last that is used.
  uint32_t posted_ = 0;  // The last step of which all phases were posted.
  std::vector<const void*> sources_;
  size_t own_place_;
  size_t half_bytes_ = ShmSegment::kPlaceBytes;
  uint32_t long_waits_ = 0;  // of the segment, that rounds know of
};

}  // namespace

std::unique_ptr<Communicator> MakeShmCommunicator(std::unique_ptr<ShmSegment> segment,
                                                  uint32_t joined, Duration operation_timeout) {
  return std::make_unique<ShmCommunicator>(std::move(segment), joined, operation_timeout);
}

}  // namespace hvdray
