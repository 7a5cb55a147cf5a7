// SPDX-License-Identifier: Apache-2.0
// The launcher's only store of rendezvous values: scopes, keys, finish rules, followers. Pure: no
// I/O (except one log warning) and no clock. docs/rendezvous.md has the rules.
#ifndef HVDRAY_RENDEZVOUS_KV_STORE_H_
#define HVDRAY_RENDEZVOUS_KV_STORE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "rendezvous/kv_upstream.h"
#include "rendezvous/string_map.h"

namespace hvdray {

/// The ranks of a generation, and the sizes of its known scopes: "global", "local_<host>",
/// "cross_<n>".
struct KvAssignment {
  Generation generation = 0;
  StringMap<int> scope_sizes;
  /// "host:local_rank" -> "rank,size,local_rank,local_size,cross_rank,cross_size".
  StringMap<std::string> rank_and_size;
  /// The init barrier is closed: stores numeric values of scope "global", but serves none before
  /// OpenBarrier().
  bool is_barrier_held = false;

  /// Adds one worker: its rank_and_size and the sizes of its three scopes.
  void Add(std::string_view host, int rank, int size, int local_rank, int local_size,
           int cross_rank, int cross_size);
};

/// The request counts of one scope, for report and benchmarks. Bytes are those of values as sent,
/// maybe deflated.
struct KvScopeStats {
  uint64_t puts = 0, gets = 0, deletes = 0, follows = 0, bytes_in = 0, bytes_out = 0;
};

/// The charge in bytes for an unknown scope, besides its name.
inline constexpr size_t kKvScopeOverhead = 512;
/// Scopes with a row of their own in the stats; further ones share "(others)".
inline constexpr size_t kMaxKvStatsRows = 1024;

/// A known scope keeps its values until each member has deleted its key; then the store clears that
/// scope alone. In other scopes, DELETE removes the key, and the last numeric key takes the rank_*
/// keys with it. Threads: one.
class KvStore {
 public:
  class Owner {
   public:
    /// `relay`: the number given to Ask(). Called within Ask() and OpenBarrier(); must not call
    /// back into the store.
    virtual void Answer(int relay, KvAnswer answer) = 0;

   protected:
    ~Owner() = default;
  };
  /// `owner` outlives it. `limit_bytes` bounds stored_bytes().
  explicit KvStore(Owner& owner, size_t limit_bytes = size_t{1} << 30);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  /// Clears the store for a new assignment. Keeps worker_addresses of slots that exist in the new
  /// assignment: a worker registers only once in its life.
  void Reset(KvAssignment assignment);

  /// Handles a request of relay number `relay` (a host index). All but kFollow and kUnfollow get
  /// one answer, before this returns. kFollow gets one for each numeric value of its scope, then a
  /// 404 that means "no more so far", then one for each later value, except values from `relay`
  /// itself; while the init barrier is closed, it gets nothing, not even the 404. kUnfollow gets no
  /// answer.
  /// A request of another generation changes nothing: kPut and kDelete get 200, kGet and kFollow
  /// 404. kRankAndSize is answered from the assignment, whatever its generation; an unknown slot
  /// gets kRemovedFromJob. (To hold a kRankAndSize, do not pass it on yet; see RankService.)
  void Ask(int relay, const KvQuestion& question);

  /// Opens the init barrier: sends the held values of scope "global" to its followers, except to
  /// the relay that stored them. Until the next Reset(), the scope behaves like any other.
  void OpenBarrier();

  /// The relay is gone: ends its follows.
  void DropRelay(int relay);

  Generation generation() const { return assignment_.generation; }
  const KvAssignment& assignment() const { return assignment_; }
  /// Bytes charged against the limit: keys, values, unknown scopes and overheads.
  size_t stored_bytes() const { return stored_bytes_; }
  /// By scope, since the store was created; resets do not clear it.
  const std::map<std::string, KvScopeStats, std::less<>>& stats() const { return stats_; }
  /// Requests of another generation, and requests rejected by a limit.
  uint64_t stale_questions() const { return stale_questions_; }
  uint64_t refused_questions() const { return refused_questions_; }
  /// The registered addresses of that slot's worker, without its key; null: not registered.
  KvValue WorkerAddressesOf(std::string_view slot) const;

 private:
  struct Scope;
  struct Entry {
    KvValue value;
    uint32_t inflated_bytes;  ///< See KvQuestion.
  };
  using ScopeMap = StringMap<std::unique_ptr<Scope>>;

  void AnswerStale(int relay, const KvQuestion& question);
  void Put(int relay, const KvQuestion& question);
  void Get(int relay, const KvQuestion& question);
  void Delete(int relay, const KvQuestion& question);
  void Follow(int relay, const KvQuestion& question);
  void Unfollow(int relay, const KvQuestion& question);
  void RankAndSize(int relay, const KvQuestion& question);
  void RegisterWorker(int relay, const KvQuestion& question);

  Scope& ScopeOf(std::string_view name);
  void Finish(Scope& scope, std::string_view key);
  void EraseAdHoc(Scope& scope, std::string_view key);
  void ForgetIfEmpty(std::string_view name);
  KvScopeStats& StatsOf(std::string_view name);
  bool Fits(const KvQuestion& question, size_t replaced_bytes, int* status);
  void Reply(int relay, uint64_t id, int status, std::string key = {}, Entry entry = {});

  Owner& owner_;
  size_t limit_bytes_;
  size_t stored_bytes_ = 0;
  KvAssignment assignment_;
  ScopeMap scopes_;
  StringMap<KvValue> worker_addresses_;
  std::map<std::string, KvScopeStats, std::less<>> stats_;
  uint64_t stale_questions_ = 0;
  uint64_t refused_questions_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_KV_STORE_H_
