// SPDX-License-Identifier: Apache-2.0
// The scopes in which the members of one generation's meshes exchange addresses, as the workers of
// this host read them: what is cached, what the launcher is asked for, and who waits for it. Pure:
// no I/O, no clock. docs/rendezvous.md has the rules.
//
// What always holds: the cache is never larger than its limit. Who waits does so for a key that may
// not be served yet, in a scope that the launcher was asked to follow; so each wait ends by a
// value, or by a 404 once the launcher has reported that there is none. A DELETE leaves no cached
// value.
#ifndef HVDRAY_RENDEZVOUS_MESH_SCOPES_H_
#define HVDRAY_RENDEZVOUS_MESH_SCOPES_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/types.h"
#include "rendezvous/held_requests.h"
#include "rendezvous/mesh_addresses.h"
#include "rendezvous/relay_actions.h"
#include "rendezvous/relay_stats.h"
#include "rendezvous/string_map.h"
#include "rendezvous/upstream_questions.h"

namespace hvdray {

/// Scopes that one relay caches and follows; further ones are passed through.
inline constexpr size_t kMaxRelayScopes = 4096;

/// Threads: one.
class MeshScopes {
 public:
  struct Options {
    size_t cache_bytes = size_t{1} << 30;
    bool is_mesh_kept = false;     ///< See RelayCoreOptions.
    bool is_barrier_held = false;  ///< The same.
  };

  /// All of them outlive it. Asks `questions`, and answers those that wait in `held`.
  MeshScopes(Options options, HeldRequests& held, UpstreamQuestions& questions, RelayStats& stats)
      : options_(options), held_(held), questions_(questions), stats_(stats) {}

  /// For a new generation: forgets everything. Nobody may wait.
  void Clear();
  /// No member can connect to all others any more: answers present and later address lookups of
  /// Horovod's meshes with an empty value, until Clear().
  void End(RelayActions* out);

  /// A PUT of this host that is about to be sent. Returns its scope's stamp, for OnStored(); 0: it
  /// is not cached.
  uint64_t OnPut(const KvCall& call, const KvValue& body);
  /// Answers a GET or lets it wait. False: the launcher must answer it.
  bool Get(int worker, uint64_t request, const KvCall& call, TimePoint now, RelayActions* out);
  /// A DELETE of this host that is about to be sent: drops the scope's values.
  void Drop(const KvCall& call, RelayActions* out);
  /// After Drop() and the DELETE: other workers of this host may still read that scope; they go on
  /// with the store's values after the DELETE.
  void FollowAgain(const KvCall& call, TimePoint now, RelayActions* out);

  /// The launcher has stored a PUT.
  void OnStored(const UpstreamQuestion& put, RelayActions* out);
  /// An answer to a kFollow that is open, or to a kFetch.
  void OnFollowed(const KvAnswer& answer, std::string_view name, RelayActions* out);
  void OnFetched(const UpstreamQuestion& question, const KvAnswer& answer, RelayActions* out);
  /// Answers requests whose hold is over.
  void OnTick(TimePoint now, RelayActions* out);

  size_t cached_bytes() const { return cached_bytes_; }
  /// Empty unless is_mesh_kept.
  const MeshAddresses& mesh() const { return mesh_; }

 private:
  /// The cache of a mesh scope. A drop deletes it, and its successor gets another stamp, so the
  /// stamp shows whether a question is older than the last drop.
  struct Scope {
    uint64_t stamp = 0;
    uint64_t follow = 0;       ///< Question id; 0: none.
    bool is_complete = false;  ///< All values that existed at the follow's start have arrived.
    bool is_barrier = false;   ///< The init barrier's scope: serves nothing before is_complete.
    bool is_partial = false;   ///< A value did not fit the cache: fetch single keys.
    StringMap<KvValue> values;
    StringMap<uint64_t> fetches;  ///< Key -> question, when is_partial.
    size_t bytes = 0;
    bool IsHeld() const { return is_barrier && !is_complete; }
    /// Before the launcher has answered, a 404 would be a guess, and a wrong one is fatal: Horovod
    /// reads each value twice and treats a 404 to the second read as an empty value. It would also
    /// repeat the same question, forever if the launcher is slower than the hold.
    bool IsKnownAbsent(std::string_view key) const { return is_complete && !fetches.contains(key); }
  };

  Scope* Find(std::string_view name);
  /// The scope of that question, unless it was dropped since.
  Scope* FindAsked(const UpstreamQuestion& question);
  /// nullptr: there are kMaxRelayScopes already.
  Scope* FindOrMake(std::string_view name);
  void EnsureFollow(Scope& scope, std::string_view name, RelayActions* out);
  void Fetch(Scope& scope, std::string_view name, std::string_view key, RelayActions* out);
  void OpenBarrier(Scope& scope, RelayActions* out);
  /// Caches a value for the host's workers and answers its waiters.
  void Arrive(Scope& scope, std::string_view name, std::string_view key, const KvValue& value,
              RelayActions* out);
  bool Keep(Scope& scope, std::string_view key, const KvValue& value);
  /// Answers overdue waiters with 404, once the launcher has reported that the value is absent.
  void AnswerOverdue(const Scope& scope, std::string_view name, std::string_view key,
                     RelayActions* out);

  const Options options_;
  HeldRequests& held_;
  UpstreamQuestions& questions_;
  RelayStats& stats_;
  StringMap<Scope> scopes_;
  uint64_t last_stamp_ = 0;
  size_t cached_bytes_ = 0;
  bool is_ended_ = false;
  MeshAddresses mesh_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_MESH_SCOPES_H_
