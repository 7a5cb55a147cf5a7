// SPDX-License-Identifier: Apache-2.0
// A relay's decisions, without sockets: requests, answers and times in; replies and questions out.
// Pure: no I/O, no clock. docs/rendezvous.md has the rules.
#ifndef HVDRAY_RENDEZVOUS_RELAY_CORE_H_
#define HVDRAY_RENDEZVOUS_RELAY_CORE_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/types.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/mesh_addresses.h"
#include "rendezvous/relay_stats.h"
#include "rendezvous/restricted_pickle.h"
#include "rendezvous/string_map.h"

namespace hvdray {

/// The launcher's settings for a relay.
struct RelayCoreOptions {
  /// How long a GET waits for a missing value. Horovod's client has no read timeout.
  Duration kv_hold{std::chrono::seconds(1)};
  size_t cache_bytes = size_t{1} << 30;
  /// Records where the meshes of the generation listen (mesh()); for elastic jobs.
  bool is_mesh_kept = false;
  /// Keeps the init barrier: serves nothing of scope "global" before the launcher has reported it
  /// complete; its waiters wait without limit.
  bool is_barrier_held = false;
};

/// Most requests of one worker held at a time; further ones get 503.
inline constexpr size_t kMaxHeldPerWorker = 8;
/// Scopes that one relay caches and follows; further ones are passed through.
inline constexpr size_t kMaxRelayScopes = 4096;

/// The answer to a request. Status 0: close its connection without an answer.
struct RelayReply {
  uint64_t request = 0;
  int status = 0;
  KvValue body;
};

/// What the caller must do now: first send the questions, in this order, then the replies.
/// `arrivals`: workers that have reached their first hvd.init() ahead of the store, each once. The
/// caller removes items as it handles them; the core only appends.
struct RelayActions {
  std::deque<KvQuestion> questions;
  std::deque<RelayReply> replies;
  std::deque<int> arrivals;
};

/// Threads: one. The caller numbers workers and requests; a number may be reused once its worker is
/// closed or its request answered.
class RelayCore {
 public:
  explicit RelayCore(RelayCoreOptions options) : options_(options) {}

  /// A worker is about to be started in `generation`. `slot`: its "host:local_rank". If the
  /// generation is ahead of the store, holds the worker's requests until Reset(). Before the first
  /// Reset(), the first opened worker's generation is taken for the store's.
  void OpenWorker(int worker, std::string slot, Generation generation);
  /// Its process was reaped: drops its requests without an answer.
  void CloseWorker(int worker);
  /// The store is empty and belongs to `generation` now. No effect unless that is above the present
  /// one. Answers held GETs with 404, held PUTs and DELETEs with 200; keeps holding rank_and_size.
  void Reset(Generation generation, TimePoint now, RelayActions* out);

  /// A member of `generation` is lost, so no member can connect to all others any more. Until the
  /// next Reset(), answers present and later address lookups of Horovod's meshes with an empty
  /// value, which makes Gloo fail at once; a 404 would make it retry until its timeout. No effect
  /// unless `generation` is the present one.
  void EndMeshes(Generation generation, RelayActions* out);

  /// A request of an open worker; `request` is a free number. `body`: a PUT's. Answered now or
  /// later, unless OnGone() or CloseWorker() comes first.
  void OnRequest(int worker, uint64_t request, const KvCall& call, KvValue body, TimePoint now,
                 RelayActions* out);
  /// The client of a held request has disconnected.
  void OnGone(uint64_t request);
  /// An answer from upstream, in upstream's order. Drops answers that no request waits for.
  void OnAnswer(const KvAnswer& answer, RelayActions* out);
  /// Answers requests whose hold is over.
  void OnTick(TimePoint now, RelayActions* out);
  /// When OnTick() may next have work; nullopt: no request has a deadline.
  std::optional<TimePoint> NextDeadline() const;

  Generation generation() const { return generation_; }
  const RelayStats& stats() const { return stats_; }
  size_t held_requests() const { return requests_.size(); }
  /// Unanswered requests of that worker.
  std::vector<uint64_t> HeldBy(int worker) const;
  size_t cached_bytes() const { return cached_bytes_; }
  /// That worker's registration, including its key, until CloseWorker(); nullptr: not registered.
  const WorkerAddresses* AddressesOf(int worker) const;
  /// The generation in which it was started or last released by rank_and_size; 0: not open.
  Generation GenerationOf(int worker) const;
  /// Whether it waits in rank_and_size.
  bool IsParked(int worker) const;
  /// Empty unless RelayCoreOptions::is_mesh_kept.
  const MeshAddresses& mesh() const { return mesh_; }

 private:
  /// A request of a worker without an answer yet.
  struct Request {
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
    size_t held_index = 0;    ///< In the worker's list.
    size_t waiter_index = 0;  ///< kWaiter: in the key's list.
    std::string scope;        ///< kWaiter, kEarly
    std::string key;
    KvValue body;  ///< kEarly
  };

  /// An open worker.
  struct Worker {
    std::string slot;  ///< "host:local_rank"
    /// The generation in which it was started or which rank_and_size last moved it to.
    Generation generation = 0;
    bool has_arrived = false;    ///< It reached its first hvd.init() ahead of the store.
    std::vector<uint64_t> held;  ///< Its open requests.
    std::optional<WorkerAddresses> addresses;
  };

  /// The cache of a mesh scope. A drop deletes it, and its successor gets another stamp, so the
  /// stamp shows whether a question is older than the last drop.
  struct Scope {
    uint64_t stamp = 0;
    uint64_t follow = 0;       ///< Question id; 0: none.
    bool is_complete = false;  ///< All values that existed at the follow's start have arrived.
    bool is_barrier = false;   ///< The init barrier's scope: serves nothing before is_complete.
    bool is_partial = false;   ///< A value did not fit the cache: fetch single keys.
    StringMap<KvValue> values;
    StringMap<std::vector<uint64_t>> waiters;
    StringMap<uint64_t> fetches;  ///< Key -> question, when is_partial.
    size_t bytes = 0;
    /// Before the launcher has answered, a 404 would be a guess, and a wrong one is fatal: Horovod
    /// reads each value twice and treats a 404 to the second read as an empty value. It would also
    /// repeat the same question, forever if the launcher is slower than the hold.
    bool IsKnownAbsent(std::string_view key) const { return is_complete && !fetches.contains(key); }
  };

  /// A question to the launcher whose answers are still expected.
  struct Question {
    enum class Kind : uint8_t { kPass, kFetch, kFollow, kRankAndSize };
    Kind kind = Kind::kPass;
    uint64_t request = 0;  ///< 0: its peer is gone.
    int worker = -1;
    uint64_t stamp = 0;  ///< The scope's; 0: do not cache the answer.
    std::string scope;
    std::string key;
    KvValue value;  ///< Of a PUT.
  };

  void Route(Worker& speaker, int worker, uint64_t request, const KvCall& call, KvValue body,
             TimePoint now, RelayActions* out);
  void Put(int worker, uint64_t request, const KvCall& call, KvValue body, RelayActions* out);
  void Get(int worker, uint64_t request, const KvCall& call, TimePoint now, RelayActions* out);
  void Delete(int worker, uint64_t request, const KvCall& call, TimePoint now, RelayActions* out);
  void PassThrough(KvOp op, int worker, uint64_t request, const KvCall& call, KvValue body,
                   uint64_t stamp, RelayActions* out);
  void WaitForKey(Scope& scope, int worker, uint64_t request, const KvCall& call, TimePoint now,
                  RelayActions* out);
  void RankAndSize(const Worker& speaker, int worker, uint64_t request, const KvCall& call,
                   RelayActions* out);
  void Register(Worker& speaker, int worker, uint64_t request, const KvCall& call,
                const KvValue& body, RelayActions* out);
  void NoteMesh(std::string_view scope, std::string_view key, const KvValue& value);
  void AnswerStale(uint64_t request, KvVerb verb, RelayActions* out);

  uint64_t Ask(KvOp op, int worker, std::string_view scope, std::string_view key, KvValue value,
               RelayActions* out);
  void Hold(uint64_t request, Request held);
  /// Ends a held request without answering it.
  void Forget(uint64_t request);
  void RemoveWaiter(const Request& held);
  /// Answers a request, held or not.
  void Answer(uint64_t request, int status, KvValue body, RelayActions* out);

  bool IsHeld(const Scope& scope) const { return scope.is_barrier && !scope.is_complete; }
  void OpenBarrier(Scope& scope, RelayActions* out);
  Scope* FindScope(std::string_view name);
  /// nullptr: there are kMaxRelayScopes already.
  Scope* FindOrMakeScope(std::string_view name);
  /// After a DELETE by any worker of this host: drops the scope's cache. Returns the waiters.
  StringMap<std::vector<uint64_t>> DropScope(std::string_view name, RelayActions* out);
  void OnFollowed(const KvAnswer& answer, std::string_view name, RelayActions* out);
  void OnFetched(Scope& scope, std::string_view key, const KvAnswer& answer, RelayActions* out);
  /// Answers overdue waiters with 404, once the launcher has reported that the value is absent.
  void AnswerOverdue(Scope& scope, std::string_view key, RelayActions* out);
  void EnsureFollow(Scope& scope, std::string_view name, RelayActions* out);
  void Fetch(Scope& scope, std::string_view name, std::string_view key, RelayActions* out);
  /// Caches a value for the host's workers and answers its waiters.
  void Arrive(Scope& scope, std::string_view key, const KvValue& value, RelayActions* out);
  bool Keep(Scope& scope, std::string_view key, const KvValue& value);
  void OnRankAndSize(const Question& question, const KvAnswer& answer, RelayActions* out);
  void ReplayEarly(TimePoint now, RelayActions* out);
  /// Ends the wait of `request` after the hold.
  void SetDeadline(uint64_t request, TimePoint now);

  RelayCoreOptions options_;
  Generation generation_ = 0;
  bool are_meshes_ended_ = false;
  uint64_t last_question_ = 0;
  uint64_t last_stamp_ = 0;
  size_t cached_bytes_ = 0;
  std::unordered_map<int, Worker> workers_;
  std::unordered_map<uint64_t, Request> requests_;
  std::unordered_map<uint64_t, Question> questions_;
  StringMap<Scope> scopes_;
  StringMap<uint64_t> parked_;  // Slot -> question of its rank_and_size.
  MeshAddresses mesh_;
  std::deque<std::pair<TimePoint, uint64_t>> deadlines_;
  RelayStats stats_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_CORE_H_
