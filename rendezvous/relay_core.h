// SPDX-License-Identifier: Apache-2.0
// A relay's decisions, without sockets: requests, answers and times in; replies and questions out.
// Pure: no I/O, no clock. docs/rendezvous.md has the rules. What is here is who may ask for what:
// by worker, slot and generation; MeshScopes answers what the members of a mesh tell each other.
//
// What always holds: a request of an open worker is answered once, or is held; a worker reads and
// writes only the values of its own generation.
#ifndef HVDRAY_RENDEZVOUS_RELAY_CORE_H_
#define HVDRAY_RENDEZVOUS_RELAY_CORE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/types.h"
#include "rendezvous/held_requests.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/mesh_addresses.h"
#include "rendezvous/mesh_scopes.h"
#include "rendezvous/relay_actions.h"
#include "rendezvous/relay_stats.h"
#include "rendezvous/restricted_pickle.h"
#include "rendezvous/string_map.h"
#include "rendezvous/upstream_questions.h"

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

/// Threads: one. The caller numbers workers and requests; a number may be reused once its worker is
/// closed or its request answered.
class RelayCore {
 public:
  explicit RelayCore(RelayCoreOptions options);
  RelayCore(const RelayCore&) = delete;
  RelayCore& operator=(const RelayCore&) = delete;

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
  void OnTick(TimePoint now, RelayActions* out) { meshes_.OnTick(now, out); }
  /// When OnTick() may next have work; nullopt: no request has a deadline.
  std::optional<TimePoint> NextDeadline() const { return held_.NextDeadline(); }

  Generation generation() const { return questions_.generation(); }
  const RelayStats& stats() const { return stats_; }
  size_t held_requests() const { return held_.size(); }
  /// Unanswered requests of that worker.
  std::vector<uint64_t> HeldBy(int worker) const { return held_.Of(worker); }
  size_t cached_bytes() const { return meshes_.cached_bytes(); }
  /// That worker's registration, including its key, until CloseWorker(); nullptr: not registered.
  const WorkerAddresses* AddressesOf(int worker) const;
  /// The generation in which it was started or last released by rank_and_size; 0: not open.
  Generation GenerationOf(int worker) const;
  /// Whether it waits in rank_and_size.
  bool IsParked(int worker) const;
  /// Empty unless RelayCoreOptions::is_mesh_kept.
  const MeshAddresses& mesh() const { return meshes_.mesh(); }

 private:
  /// An open worker.
  struct Worker {
    std::string slot;  ///< "host:local_rank"
    /// The generation in which it was started or which rank_and_size last moved it to.
    Generation generation = 0;
    bool has_arrived = false;  ///< It reached its first hvd.init() ahead of the store.
    std::optional<WorkerAddresses> addresses;
  };

  /// What a worker of the store's generation, or of another one, asks of the store.
  void Route(Worker& speaker, int worker, uint64_t request, const KvCall& call, KvValue body,
             TimePoint now, RelayActions* out);
  /// `stamp`: see UpstreamQuestion.
  void PassThrough(KvOp op, int worker, uint64_t request, const KvCall& call, KvValue body,
                   uint64_t stamp, RelayActions* out);
  void RankAndSize(const Worker& speaker, int worker, uint64_t request, const KvCall& call,
                   RelayActions* out);
  void OnRankAndSize(const UpstreamQuestion& question, const KvAnswer& answer, RelayActions* out);
  void Register(Worker& speaker, int worker, uint64_t request, const KvCall& call,
                const KvValue& body, RelayActions* out);
  void ReplayEarly(TimePoint now, RelayActions* out);

  RelayStats stats_;
  std::unordered_map<int, Worker> workers_;
  StringMap<uint64_t> parked_;  // Slot -> question of its rank_and_size.
  HeldRequests held_;
  UpstreamQuestions questions_;
  MeshScopes meshes_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_CORE_H_
