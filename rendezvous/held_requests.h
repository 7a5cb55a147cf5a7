// SPDX-License-Identifier: Apache-2.0
// The requests of a relay's workers that have no answer yet. Pure: no I/O, no clock.
//
// What always holds: a request is held once, and stands in the list of its worker; one that waits
// for a value stands in the list of its key, too. Both lists lose it when it ends, however it ends.
// While a request waits, it has a deadline or is overdue.
#ifndef HVDRAY_RENDEZVOUS_HELD_REQUESTS_H_
#define HVDRAY_RENDEZVOUS_HELD_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/relay_actions.h"
#include "rendezvous/string_map.h"

namespace hvdray {

/// A request of a worker without an answer yet.
struct HeldRequest {
  enum class Kind : uint8_t {
    kWaiter,       ///< GET of a missing numeric key; ends after the hold.
    kAsked,        ///< Waits for one answer of the launcher.
    kRankAndSize,  ///< Waits for a rank, without limit.
    kEarly,        ///< Its worker's generation is ahead of the store's.
  };
  int worker = 0;
  Kind kind = Kind::kWaiter;
  KvVerb verb = KvVerb::kGet;
  uint64_t question = 0;    ///< kAsked, kRankAndSize
  bool is_overdue = false;  ///< kWaiter: its hold is over, but the value may exist.
  std::string scope;        ///< kWaiter, kEarly
  std::string key;
  KvValue body;  ///< kEarly
};

/// Threads: one. The caller numbers requests; a number may be reused once its request has ended.
class HeldRequests {
 public:
  /// `hold`: how long a GET waits for a missing value.
  explicit HeldRequests(Duration hold) : hold_(hold) {}

  void Hold(uint64_t request, HeldRequest held);
  /// A GET that waits until the hold is over.
  void Wait(uint64_t request, int worker, const KvCall& call, TimePoint now);
  /// Gives a waiter the whole hold again.
  void WaitAgain(uint64_t request, TimePoint now);
  /// Ends a request, if it is held, without an answer.
  void End(uint64_t request);
  /// Answers a request, held or not, and ends it.
  void Answer(uint64_t request, int status, KvValue body, RelayActions* out);

  /// nullptr: not held. Valid until it ends.
  const HeldRequest* Find(uint64_t request) const;
  size_t size() const { return requests_.size(); }
  std::vector<uint64_t> Of(int worker) const;
  size_t CountOf(int worker) const;
  /// Those of that kind for which `accepts` is true, in rising order.
  std::vector<uint64_t> Select(const std::function<bool(const HeldRequest&)>& accepts) const;

  std::vector<uint64_t> Waiters(std::string_view scope, std::string_view key) const;
  std::vector<std::string> AwaitedKeys(std::string_view scope) const;
  /// The next waiter whose hold is over, each once. It goes on waiting, as overdue, until it ends.
  std::optional<uint64_t> TakeOverdue(TimePoint now);
  /// When TakeOverdue() may next have one; nullopt: no request has a deadline.
  std::optional<TimePoint> NextDeadline() const;

 private:
  using List = std::vector<uint64_t>;
  struct Held {
    HeldRequest request;
    List* waiters = nullptr;  // of its key: maps don't move their values
    size_t waiter_index = 0;
  };

  const Duration hold_;
  std::unordered_map<uint64_t, Held> requests_;
  std::unordered_map<int, List> by_worker_;  // Each with a few requests.
  StringMap<StringMap<List>> waiters_;       // Scope -> key -> requests; no list is empty.
  std::deque<std::pair<TimePoint, uint64_t>> deadlines_;  // Rising; also of requests that ended.
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_HELD_REQUESTS_H_
