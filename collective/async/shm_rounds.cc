// SPDX-License-Identifier: Apache-2.0
// Rounds in memory that all ranks map: the bell is a word that a waiting rank sleeps on.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "collective/async/rounds.h"
#include "collective/shm_meeting.h"
#include "collective/shm_segment.h"
#include "collective/store.h"

namespace hvdray {
namespace {

// A slot begins with the number of bytes of the whole message, of which it has a part.
constexpr size_t kPartBytes = ShmSegment::kSlotBytes - sizeof(uint64_t);

class ShmRounds : public Rounds {
 public:
  ShmRounds(std::unique_ptr<ShmSegment> segment, uint32_t step)
      : segment_(std::move(segment)), step_(step) {}

  void Ring(uint32_t round) override { segment_->Ring(round); }
  Result<bool> Await(uint32_t round, TimePoint deadline) override {
    return segment_->AwaitRing(round, deadline);
  }

  Result<std::vector<std::string>> Exchange(uint32_t round, std::string_view bytes) override {
    segment_->Ring(round);
    std::vector<std::string> all(static_cast<size_t>(segment_->size()));
    // A rank writes the next slot when it has read all of this one, and so another round of this
    // slot only when all have.
    for (size_t longest = 1, done = 0; done < longest; done += kPartBytes) {
      ++step_;
      Write(bytes, done);
      segment_->Post(ShmSegment::kWritten, step_);
      HVDRAY_RETURN_IF_ERROR(segment_->WaitAll(ShmSegment::kWritten, step_));
      for (size_t peer = 0; peer < all.size(); ++peer) {
        const char* slot = segment_->Slot(static_cast<int>(peer), step_);
        uint64_t size = 0;
        std::memcpy(&size, slot, sizeof size);
        longest = std::max<size_t>(longest, size);
        if (done < size) {
          all[peer].append(slot + sizeof size, std::min<size_t>(size - done, kPartBytes));
        }
      }
    }
    return all;
  }

  void Abort() override { segment_->Abort(); }

 private:
  void Write(std::string_view bytes, size_t done) {
    char* slot = segment_->Slot(segment_->rank(), step_);
    const uint64_t size = bytes.size();
    std::memcpy(slot, &size, sizeof size);
    if (done < size) {
      std::memcpy(slot + sizeof size, bytes.data() + done, std::min(size - done, kPartBytes));
    }
  }

  std::unique_ptr<ShmSegment> segment_;
  uint32_t step_;
};

Result<std::unique_ptr<ShmSegment>> OfOneRank(Duration timeout) {
  const std::string token(ShmSegment::kTokenBytes, '0');
  const pid_t pid = ::getpid();
  HVDRAY_ASSIGN_OR_RETURN(UniqueFd memory, ShmSegment::Create({&pid, 1}, token));
  return ShmSegment::Open(std::move(memory), 0, token, timeout);
}

Result<std::unique_ptr<ShmSegment>> OfAll(const CommunicatorOptions& options) {
  Store store(options.rendezvous_host, options.rendezvous_port, options.scope + "_rounds",
              options.timeout);
  HVDRAY_ASSIGN_OR_RETURN(ShmMeeting meeting,
                          ShmMeeting::Join(store, options.rank, options.size, options.timeout));
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ShmSegment> segment, meeting.Share(store));
  HVDRAY_RETURN_IF_ERROR(meeting.Forget(store));
  return segment;
}

}  // namespace

Result<std::unique_ptr<Rounds>> Rounds::Make(const CommunicatorOptions& options,
                                             Communicator& all) {
  const bool is_one_host = all.backend() == "shm" || all.backend() == "single";
  if (!is_one_host) return MakeNetworkRounds(options, all);
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<ShmSegment> segment,
                          options.size == 1 ? OfOneRank(options.timeout) : OfAll(options));
  segment->SetTimeout(options.operation_timeout);
  constexpr uint32_t kJoined = 1;  // the step that ShmMeeting has taken
  return std::make_unique<ShmRounds>(std::move(segment), kJoined);
}

}  // namespace hvdray
