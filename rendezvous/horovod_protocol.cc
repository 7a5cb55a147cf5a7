// SPDX-License-Identifier: Apache-2.0
// Parses Horovod's key-value requests. Total: every input yields a call or a status.
#include "rendezvous/horovod_protocol.h"

#include <fmt/format.h>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kProcessSetMark = "_process_set_hash_";
constexpr std::string_view kRankNamePrefix = "rank_";
constexpr size_t kMaxDigits = 9;  // Fits an int32 without an overflow check.

std::optional<uint32_t> CanonicalNumber(std::string_view text) {
  if (text.empty() || text.size() > kMaxDigits) return std::nullopt;
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  uint32_t number = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<uint32_t>(c - '0');
  }
  return number;
}

bool IsLowerHex(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
  }
  return true;
}

bool IsMeshScope(std::string_view scope) {
  if (scope == "global") return true;
  if (scope.starts_with("local_")) return scope.size() > 6;
  return scope.starts_with("cross_") && CanonicalNumber(scope.substr(6)).has_value();
}

// No blanks, no control characters (U+0080 to U+009F are control characters, too).
bool IsPrintableUtf8(std::string_view text) {
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    if (length == 0) return false;
    const auto first = static_cast<unsigned char>(text[0]);
    if (first <= 0x20 || first == 0x7F) return false;
    if (first == 0xC2 && static_cast<unsigned char>(text[1]) < 0xA0) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

ScopeKind KindOfScope(std::string_view scope) {
  if (scope == "rank_and_size") return ScopeKind::kRankAndSize;
  if (scope == "worker_addresses") return ScopeKind::kWorkerAddresses;
  if (scope.starts_with("hvdray_")) return ScopeKind::kCommunicator;
  const size_t mark = scope.rfind(kProcessSetMark);
  if (mark != std::string_view::npos && IsLowerHex(scope.substr(mark + kProcessSetMark.size())) &&
      IsMeshScope(scope.substr(0, mark))) {
    return ScopeKind::kProcessSet;
  }
  return IsMeshScope(scope) ? ScopeKind::kMesh : ScopeKind::kOther;
}

bool IsLastScopeOfInit(std::string_view scope) {
  return scope.starts_with("cross_") && KindOfScope(scope) == ScopeKind::kProcessSet;
}

KeyKind KindOfKey(std::string_view key) {
  if (CanonicalNumber(key)) return KeyKind::kNumber;
  if (key.starts_with(kRankNamePrefix) && CanonicalNumber(key.substr(kRankNamePrefix.size()))) {
    return KeyKind::kRankName;
  }
  return KeyKind::kOther;
}

std::optional<uint32_t> NumberOfKey(std::string_view key) {
  if (key.starts_with(kRankNamePrefix)) key.remove_prefix(kRankNamePrefix.size());
  return CanonicalNumber(key);
}

ParsedKvRequest ParseKvRequest(std::string_view method, std::string_view target,
                               bool has_content_length) {
  ParsedKvRequest parsed;
  KvCall& call = parsed.call;
  if (method == "PUT") {
    call.verb = KvVerb::kPut;
  } else if (method == "GET") {
    call.verb = KvVerb::kGet;
  } else if (method == "DELETE") {
    call.verb = KvVerb::kDelete;
  } else {
    parsed.status = method == "HEAD" ? 405 : 501;
    return parsed;
  }
  parsed.status = 400;
  if (!target.starts_with('/')) return parsed;
  const size_t slash = target.find('/', 1);
  if (slash == std::string_view::npos) return parsed;
  call.scope = target.substr(1, slash - 1);
  call.key = target.substr(slash + 1);
  if (call.scope.empty() || call.key.empty()) return parsed;
  if (call.key.find('/') != std::string_view::npos) return parsed;
  if (!IsPrintableUtf8(call.scope) || !IsPrintableUtf8(call.key)) return parsed;
  if (call.verb == KvVerb::kPut && !has_content_length) {
    parsed.status = 411;
    return parsed;
  }
  call.scope_kind = KindOfScope(call.scope);
  call.key_kind = KindOfKey(call.key);
  parsed.status = 200;
  return parsed;
}

std::string JoinSlot(std::string_view host, int local_rank) {
  return fmt::format("{}:{}", host, local_rank);
}

}  // namespace hvdray
