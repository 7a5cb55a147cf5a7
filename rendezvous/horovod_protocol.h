// What a request line of Horovod's key-value protocol means: verb, scope, key and their kinds, or
// the HTTP status that refuses it. Pure; knows no sockets and no values. Horovod spec 2.1-2.6.
#ifndef HVDRAY_RENDEZVOUS_HOROVOD_PROTOCOL_H_
#define HVDRAY_RENDEZVOUS_HOROVOD_PROTOCOL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hvdray {

enum class KvVerb : uint8_t { kPut, kGet, kDelete };

enum class ScopeKind : uint8_t {
  kMesh,             ///< "global", "local_<host>", "cross_<n>"
  kProcessSet,       ///< one of those followed by "_process_set_hash_<hex>"
  kCommunicator,     ///< "hvdray_<...>": our own collectives meet there
  kRankAndSize,      ///< a worker of an elastic job asks for its new place
  kWorkerAddresses,  ///< a worker of an elastic job says where it can be notified
  kOther,            ///< anything else: kept as plain values
};

enum class KeyKind : uint8_t {
  kNumber,    ///< "<r>": the addresses of member r; canonical decimal, below 10^9
  kRankName,  ///< "rank_<r>": the machine of member r
  kOther,
};

/// A request that can be carried out. The views point into the target that was parsed.
struct KvCall {
  KvVerb verb = KvVerb::kGet;
  ScopeKind scope_kind = ScopeKind::kOther;
  KeyKind key_kind = KeyKind::kOther;
  std::string_view scope;
  std::string_view key;

  /// A scope in which members meet (spec 2.3): its numeric keys may be cached, held and followed.
  bool is_mesh() const { return is_horovod_mesh() || scope_kind == ScopeKind::kCommunicator; }
  /// There, "rank_<i>" only tells who shares a machine, and its absence is an answer.
  bool is_horovod_mesh() const {
    return scope_kind == ScopeKind::kMesh || scope_kind == ScopeKind::kProcessSet;
  }
};

/// status 200: `call` is valid. Otherwise the status to answer with an empty body.
struct ParsedKvRequest {
  int status = 200;
  KvCall call;
};

/// `target` is taken as sent: no percent-decoding, exactly "/<scope>/<key>", neither part empty,
/// printable UTF-8, so that logs and reports can show them as they are. 400: other targets; 405:
/// HEAD; 411: PUT without Content-Length; 501: other methods.
ParsedKvRequest ParseKvRequest(std::string_view method, std::string_view target,
                               bool has_content_length);

ScopeKind KindOfScope(std::string_view scope);
KeyKind KindOfKey(std::string_view key);
/// The r of a kNumber or kRankName key; nullopt for other keys.
std::optional<uint32_t> NumberOfKey(std::string_view key);

/// "host:local_rank" in two. nullopt unless there is exactly one ':' with a host before it and a
/// canonical decimal behind it.
struct SlotName {
  std::string_view host;
  uint32_t local_rank = 0;
};
std::optional<SlotName> SplitSlot(std::string_view slot);
std::string JoinSlot(std::string_view host, int local_rank);

/// Where all members of a generation meet first; nobody has gone further before all have.
inline constexpr std::string_view kMeetingScope = "global";

/// The last of the scopes that a member goes through in hvd.init(), one after the other: that of
/// all processes across the hosts, as the first process set. Sets of the user's own come behind it.
bool IsLastScopeOfInit(std::string_view scope);

/// The answer to rank_and_size that tells a worker to leave the job (spec 2.6).
inline constexpr std::string_view kRemovedFromJob = "-1,-1,-1,-1,-1,-1";

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_HOROVOD_PROTOCOL_H_
