// SPDX-License-Identifier: Apache-2.0
// The relay's interface to the launcher: an ordered stream of requests and answers. The agent's
// session implements it over its link.
#ifndef HVDRAY_RENDEZVOUS_KV_UPSTREAM_H_
#define HVDRAY_RENDEZVOUS_KV_UPSTREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/types.h"

namespace hvdray {

/// An immutable value, shared by the store, caches and pending answers.
using KvValue = std::shared_ptr<const std::string>;

/// The largest value; also the HTTP server's body limit.
inline constexpr size_t kMaxKvValueBytes = size_t{16} << 20;
/// The charge in bytes for an entry of a store or cache, besides key and value, so that empty
/// values cost memory, too.
inline constexpr size_t kKvEntryOverhead = 128;

/// The operation of a KvQuestion. The values are wire format.
enum class KvOp : uint8_t {
  kPut = 1,
  kGet = 2,  ///< Answered at once, with 200 or 404.
  kDelete = 3,
  kFollow = 4,  ///< All numeric keys of a scope, now and as they arrive, until kUnfollow.
  kUnfollow = 5,
  kRankAndSize = 6,      ///< key "host:local_rank"; answered once the launcher knows.
  kWorkerAddresses = 7,  ///< key "host:local_rank"; value: typed content, without the key.
};

/// A relay's request to the store. Ids rise, and answers repeat them. kWorkerAddresses: `value` is
/// ToPublicText() of restricted_pickle.h, and the relay ignores the answer.
struct KvQuestion {
  uint64_t id = 0;
  Generation generation = 0;  ///< The store's, as the relay knows it.
  KvOp op = KvOp::kGet;
  int rank = -1;  ///< The requesting worker; -1: the relay itself.
  std::string scope;
  std::string key;
  KvValue value;  ///< For kPut and kWorkerAddresses only.
  /// Not 0: the value is deflated, and the store keeps it so; this is its inflated size.
  uint32_t inflated_bytes = 0;
};

/// Status 200, 404, 413 or 503. A kFollow gets one answer of status 200, with its key, for each
/// value; one of status 404, without a key, follows the values that existed at its start.
struct KvAnswer {
  uint64_t id = 0;
  Generation generation = 0;  ///< The store's at the time of the answer.
  int status = 200;
  std::string key;
  KvValue value;
  uint32_t inflated_bytes = 0;  ///< As in the KvQuestion that stored the value.
};

/// The launcher as a relay sees it. Threads: the relay's.
class KvUpstream {
 public:
  virtual ~KvUpstream() = default;
  /// Sends the request. Never blocks; keeps the order of calls.
  virtual void Ask(KvQuestion question) = 0;
  /// A worker of a generation ahead of the store has reached its first hvd.init() and waits for its
  /// generation. Called once per worker; matters in elastic jobs only.
  virtual void Arrived(int /*worker*/) {}
};

/// The bytes that the store and the relays' caches charge for an entry. Pure.
inline size_t ChargeOf(std::string_view key, const KvValue& value) {
  return kKvEntryOverhead + key.size() + value->size();
}

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_KV_UPSTREAM_H_
