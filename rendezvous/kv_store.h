// The launcher's only store of rendezvous values: scopes, keys, finish rules, followers. Pure: does
// no I/O (one warning in the log apart) and reads no clock. docs/rendezvous.md has the rules.
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

/// Who is a member of what, for scopes whose size is known: "global", "local_<host>", "cross_<n>".
struct KvAssignment {
  Generation generation = 0;
  StringMap<int> scope_sizes;
  /// "host:local_rank" -> "rank,size,local_rank,local_size,cross_rank,cross_size".
  StringMap<std::string> rank_and_size;
  /// The numeric values of scope "global" are taken, but handed to nobody before OpenMeeting().
  bool is_meeting_held = false;

  /// Enters one worker: its rank_and_size and the sizes of its three scopes.
  void Add(std::string_view host, int rank, int size, int local_rank, int local_size,
           int cross_rank, int cross_size);
};

/// One line of the request table (bench, report). Bytes are those of values as they travel.
struct KvScopeStats {
  uint64_t puts = 0, gets = 0, deletes = 0, follows = 0, bytes_in = 0, bytes_out = 0;
};

/// What a scope that is not known is charged beside its name.
inline constexpr size_t kKvScopeOverhead = 512;
/// Scopes with a line of their own in the stats; all further ones share "(others)".
inline constexpr size_t kMaxKvStatsRows = 1024;

/// Known scopes keep their values until each of their members has deleted its key, and are then
/// cleared alone. In all others DELETE takes the key, and with the last numeric key the rank_*
/// ones.
class KvStore {
 public:
  /// Answers go to `answer(relay, KvAnswer)`: `relay` is the number given to Ask(). It may be
  /// called within Ask() and must not call back into the store.
  using AnswerFn = std::function<void(int relay, KvAnswer answer)>;
  explicit KvStore(AnswerFn answer, size_t limit_bytes = size_t{1} << 30);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  /// Empties everything and takes over a new assignment. What was registered in worker_addresses
  /// stays for the slots that the new assignment has too: a worker says it once in its life.
  void Reset(KvAssignment assignment);

  /// A question of relay number `relay` (a host index). Each but kFollow and kUnfollow has one
  /// answer, before this returns. kFollow has one for each numeric value of its scope, then a 404
  /// that says "no more so far", then one for each value as it comes, but not for what `relay`
  /// itself puts; of a held meeting nothing, the 404 included, before OpenMeeting(). kUnfollow has
  /// none.
  /// A question of another generation than the store's changes nothing: 200 to kPut and kDelete,
  /// 404 to kGet and kFollow. kRankAndSize is answered from the assignment, whatever its
  /// generation; a slot that is not there gets kRemovedFromJob. (Who wants to hold it does not pass
  /// it on yet.)
  void Ask(int relay, const KvQuestion& question);

  /// All members have met: what was held of scope "global" goes to its followers, but not to the
  /// relay that it came from. Until the next Reset() the scope is like any other.
  void OpenMeeting();

  /// The relay is gone: its follows end.
  void DropRelay(int relay);

  Generation generation() const { return assignment_.generation; }
  const KvAssignment& assignment() const { return assignment_; }
  /// Bytes charged against the limit: keys, values, unknown scopes, and the overheads.
  size_t stored_bytes() const { return stored_bytes_; }
  /// Since the store was made; resets do not clear it.
  const std::map<std::string, KvScopeStats, std::less<>>& stats() const { return stats_; }
  /// Questions of another generation, and those that were refused by a limit.
  uint64_t stale_questions() const { return stale_questions_; }
  uint64_t refused_questions() const { return refused_questions_; }
  /// What the worker of that slot registered, without its key; null if it did not.
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

  AnswerFn answer_;
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
