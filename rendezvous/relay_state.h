// What a relay core remembers: its workers, their open requests, mesh scopes, open questions.
// Private to rendezvous/relay_core.h.
#ifndef HVDRAY_RENDEZVOUS_RELAY_STATE_H_
#define HVDRAY_RENDEZVOUS_RELAY_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/restricted_pickle.h"
#include "rendezvous/string_map.h"

namespace hvdray {

/// A request that is not answered yet.
struct RelayRequest {
  enum class Kind : uint8_t {
    kWaiter,       ///< GET of a number that is not there yet; ends after the hold.
    kAsked,        ///< Waits for one answer of the launcher.
    kRankAndSize,  ///< Waits for a place, without limit.
    kEarly,        ///< Its worker is of a generation that the store has not reached.
  };
  int worker = 0;
  Kind kind = Kind::kWaiter;
  KvVerb verb = KvVerb::kGet;
  uint64_t question = 0;    ///< kAsked, kRankAndSize
  bool is_overdue = false;  ///< kWaiter: its hold is over, but it is not known to be absent.
  size_t held_index = 0;    ///< In the worker's list.
  size_t waiter_index = 0;  ///< kWaiter: in the key's list.
  std::string scope;        ///< kWaiter, kEarly
  std::string key;
  KvValue body;  ///< kEarly
};

struct RelayWorker {
  std::string slot;  ///< "host:local_rank"
  /// In which it was started, or last released by rank_and_size.
  Generation generation = 0;
  bool has_arrived = false;    ///< Has reached its first init ahead of the store.
  std::vector<uint64_t> held;  ///< Its open requests.
  std::optional<WorkerAddresses> addresses;
};

/// A mesh scope as this host sees it. A drop ends it and a new one is made with another stamp, so
/// the stamp tells whether an answer was asked for before the last drop.
struct RelayScope {
  uint64_t stamp = 0;
  uint64_t follow = 0;       ///< Question; 0: none.
  bool is_complete = false;  ///< All that was there when the follow began has come.
  bool is_meeting = false;   ///< Nothing of it is served before that.
  bool is_partial = false;   ///< A value did not fit the cache: ask for single keys.
  StringMap<KvValue> values;
  StringMap<std::vector<uint64_t>> waiters;
  StringMap<uint64_t> fetches;  ///< Key -> question, when is_partial.
  size_t bytes = 0;
};

/// A question whose answers are still wanted.
struct RelayQuestion {
  enum class Kind : uint8_t { kPass, kFetch, kFollow, kRankAndSize };
  Kind kind = Kind::kPass;
  uint64_t request = 0;  ///< 0: its peer is gone.
  int worker = -1;
  uint64_t stamp = 0;  ///< Of the scope; 0: the answer is not for the cache.
  std::string scope;
  std::string key;
  KvValue value;  ///< Of a PUT.
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_STATE_H_
