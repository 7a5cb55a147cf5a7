// Who waits for a rank in an elastic job, and where workers take notices. Holds the questions of
// rank_and_size until a generation is published. Pure: no I/O, no clock. docs/rendezvous.md.
#ifndef HVDRAY_RENDEZVOUS_RANK_SERVICE_H_
#define HVDRAY_RENDEZVOUS_RANK_SERVICE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "rendezvous/kv_store.h"
#include "rendezvous/string_map.h"

namespace hvdray {

/// An answer for the relay that asked.
struct RankAnswer {
  int relay = 0;
  KvAnswer answer;
};

/// Slots are named "host:local_rank". Threads: one.
class RankService {
 public:
  /// A worker process was started on that slot. What its predecessor held or registered is void.
  void Admit(std::string_view slot);
  /// That process has been reaped, or lost: what it holds is dropped and never answered.
  void Forget(std::string_view slot);
  /// The link of that relay is gone: what its workers hold is dropped.
  void DropRelay(int relay);

  /// kRankAndSize, key: the slot. True: it is held until Publish(), and it is news that this worker
  /// waits. False: it is answered at once (`out`), with "removed" for slots that were not admitted
  /// and for all after Close(); or it takes the place of a question that was held already.
  bool Ask(int relay, const KvQuestion& question, std::vector<RankAnswer>* out);
  /// kWorkerAddresses, key: the slot, value: the public text. Returns whether the slot was
  /// admitted; else it has no effect. The relay does not wait for an answer.
  bool Register(const KvQuestion& question);

  /// Answers all that is held: with its place in `assignment`, or with "removed". Call it after the
  /// store and the relays were told of the new generation (rule of the reset).
  std::vector<RankAnswer> Publish(const KvAssignment& assignment);
  /// The job is over: answers all that is held, and whatever comes later, with "removed".
  std::vector<RankAnswer> Close();

  /// nullptr: the worker has not registered.
  KvValue AddressesOf(std::string_view slot) const;
  size_t held() const { return held_; }
  /// Questions and registrations in the name of slots that have no worker.
  uint64_t refused() const { return refused_; }

 private:
  struct Slot {
    bool is_waiting = false;
    int relay = 0;
    uint64_t question = 0;
    KvValue addresses;
  };
  RankAnswer AnswerOf(const Slot& slot, std::string_view text) const;
  void Drop(Slot& slot);

  StringMap<Slot> slots_;
  Generation generation_ = 0;
  size_t held_ = 0;
  bool is_closed_ = false;
  uint64_t refused_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RANK_SERVICE_H_
