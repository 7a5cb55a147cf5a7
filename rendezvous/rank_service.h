// SPDX-License-Identifier: Apache-2.0
// Tracks the workers of an elastic job that wait for a rank, and their addresses for notices. Holds
// rank_and_size requests until a generation is published. Pure: no I/O, no clock.
// docs/rendezvous.md, "In an elastic job".
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

/// Slots are named "host:local_rank". "Removed" below means kRemovedFromJob. Threads: one.
class RankService {
 public:
  /// A worker process was started on that slot. Drops its predecessor's request and registration.
  void Admit(std::string_view slot);
  /// That process was reaped or lost: drops its request without an answer.
  void Forget(std::string_view slot);
  /// The link of that relay is gone: drops its workers' requests.
  void DropRelay(int relay);

  /// A kRankAndSize; its key is the slot. True: holds it until Publish(), and the worker was not
  /// waiting before. False: it replaces a held request of that worker, or `out` gets the answer
  /// "removed", for an unknown slot and for all slots after Close().
  bool Ask(int relay, const KvQuestion& question, std::vector<RankAnswer>* out);
  /// A kWorkerAddresses; its key is the slot, its value the public text. Needs no answer. False:
  /// unknown slot, no effect.
  bool Register(const KvQuestion& question);

  /// Answers all held requests: with their place in `assignment`, or "removed". Call after the
  /// store and the relays have the new generation (docs/rendezvous.md, Order of a reset).
  std::vector<RankAnswer> Publish(const KvAssignment& assignment);
  /// The job is over: answers all held and later requests with "removed".
  std::vector<RankAnswer> Close();
  /// Another job begins.
  void Open() { is_closed_ = false; }

  /// The registered public text; nullptr: not registered.
  KvValue AddressesOf(std::string_view slot) const;
  /// Number of held requests.
  size_t held() const { return held_; }
  /// Requests and registrations for slots without a worker.
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
