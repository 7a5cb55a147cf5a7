// What a relay does, without sockets: requests, answers and times in; replies and questions out.
// Opens nothing and reads no clock. The rules are those of docs/rendezvous.md.
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
#include "rendezvous/relay_state.h"
#include "rendezvous/relay_stats.h"
#include "rendezvous/string_map.h"

namespace hvdray {

struct RelayCoreOptions {
  Duration kv_hold{std::chrono::seconds(1)};
  size_t cache_bytes = size_t{1} << 30;
  /// Keeps where the meshes of the generation listen (mesh()), for jobs that may need it.
  bool is_mesh_kept = false;
  /// Of scope "global" nothing is served before the launcher has said that all of it is there, and
  /// who waits for it waits without limit.
  bool is_meeting_held = false;
};

/// Requests that one worker may leave unanswered at a time.
inline constexpr size_t kMaxHeldPerWorker = 8;
/// Scopes that one relay caches and follows; further ones are passed through.
inline constexpr size_t kMaxRelayScopes = 4096;

/// The answer to a request. status 0: close its connection without one.
struct RelayReply {
  uint64_t request = 0;
  int status = 0;
  KvValue body;
};

/// What must be done now. Questions first, in this order; then the replies. Arrivals: workers that
/// have reached their first init ahead of the store; each once. The user takes things
/// out as it does them; the core only appends.
struct RelayActions {
  std::deque<KvQuestion> questions;
  std::deque<RelayReply> replies;
  std::deque<int> arrivals;
};

/// Threads: one. A worker is a number of the user's that no other open worker has.
class RelayCore {
 public:
  explicit RelayCore(RelayCoreOptions options) : options_(options) {}

  /// A worker that is about to be started in `generation`. `slot`: its "host:local_rank". A worker
  /// that is ahead of the store has its requests held until Reset(). Before the first Reset() that
  /// is the store's generation.
  void OpenWorker(int worker, std::string slot, Generation generation);
  /// Its process has been reaped: nothing that it asked is answered any more.
  void CloseWorker(int worker);
  /// The store is empty and belongs to `generation` now. No effect unless that is above the
  /// present. Held GETs get 404, held PUTs and DELETEs 200; rank_and_size stays held.
  void Reset(Generation generation, TimePoint now, RelayActions* out);

  /// A member of `generation` is lost, so that nobody of it will ever be connected to all: from now
  /// on who asks for addresses of a Horovod mesh, or waits for them, gets at once what Gloo can't
  /// read, and fails. A 404 would have it ask again until its timeout. Until the next Reset(); no
  /// effect unless that is the present generation.
  void EndMeshes(Generation generation, RelayActions* out);

  /// A request of an open worker; `request` is not in use. `body`: of a PUT. Replied to sooner or
  /// later, unless OnGone or CloseWorker comes first.
  void OnRequest(int worker, uint64_t request, const KvCall& call, KvValue body, TimePoint now,
                 RelayActions* out);
  /// The peer of a request that is not answered yet went away.
  void OnGone(uint64_t request);
  /// An answer from upstream, in its order. What nobody waits for is dropped.
  void OnAnswer(const KvAnswer& answer, RelayActions* out);
  /// Answers what has been held too long.
  void OnTick(TimePoint now, RelayActions* out);
  /// When OnTick may next have work; nullopt: nothing is held.
  std::optional<TimePoint> NextDeadline() const;

  Generation generation() const { return generation_; }
  const RelayStats& stats() const { return stats_; }
  size_t held_requests() const { return requests_.size(); }
  /// Requests of that worker that are not answered yet.
  std::vector<uint64_t> HeldBy(int worker) const;
  size_t cached_bytes() const { return cached_bytes_; }
  /// What that worker registered, key included; nullptr if it did not. Until CloseWorker.
  const WorkerAddresses* AddressesOf(int worker) const;
  /// In which it was started or last released; 0: it is not open.
  Generation GenerationOf(int worker) const;
  /// It waits in rank_and_size.
  bool IsParked(int worker) const;
  const MeshAddresses& mesh() const { return mesh_; }

 private:
  using Request = RelayRequest;
  using Worker = RelayWorker;
  using Scope = RelayScope;
  using Question = RelayQuestion;

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

  bool IsHeld(const Scope& scope) const { return scope.is_meeting && !scope.is_complete; }
  void OpenMeeting(Scope& scope, RelayActions* out);
  Scope* FindScope(std::string_view name);
  /// nullptr when there are kMaxRelayScopes already.
  Scope* FindOrMakeScope(std::string_view name);
  /// Rule of the drop: what any worker of this host deletes ends the cache of that scope.
  StringMap<std::vector<uint64_t>> DropScope(std::string_view name, RelayActions* out);
  void OnFollowed(const KvAnswer& answer, std::string_view name, RelayActions* out);
  void OnFetched(Scope& scope, std::string_view key, const KvAnswer& answer, RelayActions* out);
  /// 404 to those whose hold is over, once the launcher has said that the value is absent.
  void AnswerOverdue(Scope& scope, std::string_view key, RelayActions* out);
  void EnsureFollow(Scope& scope, std::string_view name, RelayActions* out);
  void Fetch(Scope& scope, std::string_view name, std::string_view key, RelayActions* out);
  /// Keeps a value for the host's workers and answers those that wait for it.
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
  StringMap<uint64_t> parked_;  // slot -> question of its rank_and_size
  MeshAddresses mesh_;
  std::deque<std::pair<TimePoint, uint64_t>> deadlines_;
  RelayStats stats_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_CORE_H_
