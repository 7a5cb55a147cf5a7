// What a relay needs of the launcher: an ordered stream of requests and answers. launcher/ puts its
// link behind this.
#ifndef HVDRAY_RENDEZVOUS_KV_UPSTREAM_H_
#define HVDRAY_RENDEZVOUS_KV_UPSTREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/types.h"

namespace hvdray {

/// An immutable value shared by the store, caches and answers that are being written.
using KvValue = std::shared_ptr<const std::string>;

/// Largest value, as the HTTP server takes it too.
inline constexpr size_t kMaxKvValueBytes = size_t{16} << 20;
/// What an entry of the store or of a cache is charged beside its key and value, so that empty
/// values have a price as well.
inline constexpr size_t kKvEntryOverhead = 128;

enum class KvOp : uint8_t {
  kPut,
  kGet,
  kDelete,
  kFollow,
  kUnfollow,
  kRankAndSize,
  kWorkerAddresses
};

/// A question of a relay. `id` rises and is repeated in the answers. kWorkerAddresses: `value` is
/// the public text of restricted_pickle.h; its answer is not waited for.
struct KvQuestion {
  uint64_t id = 0;
  Generation generation = 0;  ///< Of the store, as the relay knows it.
  KvOp op = KvOp::kGet;
  int rank = -1;  ///< The worker that asks; -1: the relay itself.
  std::string scope;
  std::string key;
  KvValue value;  ///< Only for kPut and kWorkerAddresses.
  /// Not 0: the value came deflated, and stays so on its way through the store; its true size.
  uint32_t inflated_bytes = 0;
};

/// status 200, 404, 413 or 503. A kFollow has one answer of status 200 for each value, with its
/// key; behind those that were there when it began comes one of status 404 without a key.
struct KvAnswer {
  uint64_t id = 0;
  Generation generation = 0;  ///< Of the store when it answered.
  int status = 200;
  std::string key;
  KvValue value;
  uint32_t inflated_bytes = 0;  ///< As in the KvQuestion that brought the value.
};

class KvUpstream {
 public:
  virtual ~KvUpstream() = default;
  /// Never blocks; keeps the order of the calls.
  virtual void Ask(KvQuestion question) = 0;
  /// A worker that was opened ahead of the store has reached its first init and waits for its
  /// generation. Once a worker; only elastic jobs care.
  virtual void Arrived(int /*worker*/) {}
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_KV_UPSTREAM_H_
