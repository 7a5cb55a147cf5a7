// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/mesh_addresses.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hvdray {

std::vector<TcpAddress> ReadMeshRecords(ByteView value) {
  std::vector<TcpAddress> addresses;
  std::optional<TcpAddress> last;
  for (; value.size() >= kMeshRecordBytes; value.remove_prefix(kMeshRecordBytes)) {
    const std::optional<TcpAddress> address = ReadSockaddr(value.substr(0, kMeshRecordBytes));
    if (!address || address->port == 0 || address->is_unspecified()) continue;
    // One listener serves a whole mesh, so thousands of records may be equal.
    if (address == last) continue;
    last = address;
    addresses.push_back(*address);
  }
  std::sort(addresses.begin(), addresses.end());
  addresses.erase(std::unique(addresses.begin(), addresses.end()), addresses.end());
  return addresses;
}

void MeshAddresses::Note(std::string_view scope, std::string_view key, ByteView value) {
  const ScopeKind kind = KindOfScope(scope);
  if (kind != ScopeKind::kMesh && kind != ScopeKind::kProcessSet) return;
  if (KindOfKey(key) != KeyKind::kNumber || !problem_.empty()) return;
  if (value.size() % kMeshRecordBytes != 0) {
    return Fail(fmt::format("{:.64}/{}: {} bytes are not a multiple of the address size {}", scope,
                            key, value.size(), kMeshRecordBytes));
  }
  auto found = scopes_.find(scope);
  if (found == scopes_.end()) {
    if (scopes_.size() >= kMaxMeshScopes) {
      return Fail(fmt::format("more than {} scopes", kMaxMeshScopes));
    }
    found = scopes_.emplace(std::string(scope), Scope{value.size(), {}}).first;
  }
  Scope& mesh = found->second;
  const size_t member = *NumberOfKey(key);
  // Each of n members stores one record for every other member.
  if (value.size() != mesh.value_bytes || member > mesh.value_bytes / kMeshRecordBytes) {
    return Fail(fmt::format("{:.64}/{}: {} addresses, but another member has {}", scope, key,
                            value.size() / kMeshRecordBytes, mesh.value_bytes / kMeshRecordBytes));
  }
  std::vector<TcpAddress> addresses = ReadMeshRecords(value);
  std::vector<TcpAddress>& kept = mesh.members[member];
  address_count_ = address_count_ - kept.size() + addresses.size();
  if (address_count_ > kMaxMeshAddresses) {
    return Fail(fmt::format("more than {} addresses", kMaxMeshAddresses));
  }
  kept = std::move(addresses);
}

void MeshAddresses::NoteListening(std::string_view scope, std::string_view key, ByteView value) {
  Note(scope, key, value);
  const auto found = scopes_.find(scope);
  const std::optional<uint32_t> member = NumberOfKey(key);
  if (found == scopes_.end() || !member || KindOfKey(key) != KeyKind::kNumber) return;
  if (found->second.members.contains(*member)) found->second.listening.insert(*member);
}

void MeshAddresses::NoteDone(std::string_view scope, std::string_view key) {
  const auto found = scopes_.find(scope);
  if (found == scopes_.end() || KindOfKey(key) != KeyKind::kNumber) return;
  found->second.listening.erase(*NumberOfKey(key));
}

void MeshAddresses::Clear() { *this = MeshAddresses(); }

void MeshAddresses::Fail(std::string problem) {
  Clear();
  problem_ = std::move(problem);
}

std::vector<TcpAddress> MeshAddresses::Addresses() const {
  std::vector<TcpAddress> all;
  all.reserve(address_count_);
  for (const auto& [name, scope] : scopes_) {
    for (const auto& [member, addresses] : scope.members) {
      all.insert(all.end(), addresses.begin(), addresses.end());
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<TcpAddress> MeshAddresses::Listening() const {
  std::vector<TcpAddress> all;
  for (const auto& [name, scope] : scopes_) {
    for (const size_t member : scope.listening) {
      const std::vector<TcpAddress>& addresses = scope.members.at(member);
      all.insert(all.end(), addresses.begin(), addresses.end());
    }
  }
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

std::vector<TcpAddress> MeshAddresses::AddressesOf(std::string_view scope, size_t member) const {
  const auto found = scopes_.find(scope);
  if (found == scopes_.end()) return {};
  const auto addresses = found->second.members.find(member);
  return addresses == found->second.members.end() ? std::vector<TcpAddress>() : addresses->second;
}

}  // namespace hvdray
