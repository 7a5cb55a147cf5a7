// SPDX-License-Identifier: Apache-2.0
// Parses request lines of Horovod's key-value protocol: verb, scope, key and their kinds, or the
// HTTP status that rejects the request. Pure; knows no sockets and no values. docs/rendezvous.md,
// "What is served".
#ifndef HVDRAY_RENDEZVOUS_HOROVOD_PROTOCOL_H_
#define HVDRAY_RENDEZVOUS_HOROVOD_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hvdray {

/// The HTTP method of a request.
enum class KvVerb : uint8_t { kPut, kGet, kDelete };

/// The purpose of a scope, by its name.
enum class ScopeKind : uint8_t {
  kMesh,             ///< "global", "local_<host>", "cross_<n>"
  kProcessSet,       ///< One of those followed by "_process_set_hash_<hex>".
  kCommunicator,     ///< "hvdray_<...>": a mesh of our own collectives.
  kRankAndSize,      ///< A worker of an elastic job requests its new rank.
  kWorkerAddresses,  ///< A worker of an elastic job registers its address for notices.
  kOther,            ///< Any other name: plain values.
};

/// The purpose of a key within a mesh scope.
enum class KeyKind : uint8_t {
  kNumber,    ///< "<r>": the addresses of member r; canonical decimal, below 10^9.
  kRankName,  ///< "rank_<r>": the machine of member r.
  kOther,
};

/// A valid request. The views point into the parsed target.
struct KvCall {
  KvVerb verb = KvVerb::kGet;
  ScopeKind scope_kind = ScopeKind::kOther;
  KeyKind key_kind = KeyKind::kOther;
  std::string_view scope;
  std::string_view key;

  /// A scope in which members exchange addresses: its numeric keys may be cached, held and followed
  /// (docs/rendezvous.md, "Scopes and how they end").
  bool is_mesh() const { return is_horovod_mesh() || scope_kind == ScopeKind::kCommunicator; }
  /// A mesh of Horovod's own. In it, "rank_<i>" only tells which members share a machine, and a 404
  /// is a valid answer.
  bool is_horovod_mesh() const {
    return scope_kind == ScopeKind::kMesh || scope_kind == ScopeKind::kProcessSet;
  }
};

/// Status 200: `call` is valid. Any other: the status to answer, with an empty body.
struct ParsedKvRequest {
  int status = 200;
  KvCall call;
};

/// Parses a request line. `target` must be exactly "/<scope>/<key>", without percent-decoding,
/// neither part empty, in printable UTF-8, so that logs and reports can show both. Never fails;
/// status 400: any other target; 405: HEAD; 411: PUT without Content-Length; 501: other methods.
ParsedKvRequest ParseKvRequest(std::string_view method, std::string_view target,
                               bool has_content_length);

/// The kinds of a scope's and a key's name, for any text.
ScopeKind KindOfScope(std::string_view scope);
KeyKind KindOfKey(std::string_view key);
/// The r of a kNumber or kRankName key; nullopt for other keys.
std::optional<uint32_t> NumberOfKey(std::string_view key);

/// A slot's name, "host:local_rank".
std::string JoinSlot(std::string_view host, int local_rank);

/// The scope of the init barrier: the first in hvd.init(); no member gets past it before all have
/// reached it.
inline constexpr std::string_view kBarrierScope = "global";

/// Whether `scope` is the last one of hvd.init(), which uses its scopes in a fixed order: the first
/// process set's scope across hosts. Process sets of the user's own come later.
bool IsLastScopeOfInit(std::string_view scope);

/// The answer to rank_and_size that tells a worker to leave the job.
inline constexpr std::string_view kRemovedFromJob = "-1,-1,-1,-1,-1,-1";

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_HOROVOD_PROTOCOL_H_
