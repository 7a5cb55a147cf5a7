// SPDX-License-Identifier: Apache-2.0
// The addresses on which the Gloo meshes of a generation listen, from the values that pass through
// the relay. They distinguish connections between two workers of the gang from all their other
// connections. Pure. docs/rendezvous.md, "In an elastic job", Addresses.
#ifndef HVDRAY_RENDEZVOUS_MESH_ADDRESSES_H_
#define HVDRAY_RENDEZVOUS_MESH_ADDRESSES_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/tcp_address.h"
#include "base/types.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/string_map.h"

namespace hvdray {

/// A record of a mesh value: a sockaddr_storage of the worker's machine, then 8 bytes of a number.
inline constexpr size_t kMeshRecordBytes = 136;
/// Most distinct addresses in total; a member usually has one.
inline constexpr size_t kMaxMeshAddresses = size_t{1} << 18;
inline constexpr size_t kMaxMeshScopes = 4096;

/// The distinct addresses in a value, sorted. Skips records without a usable address (another
/// family, port 0, an unspecified address) and ignores a partial record at the end.
std::vector<TcpAddress> ReadMeshRecords(ByteView value);

/// Threads: one.
class MeshAddresses {
 public:
  /// Records a value of a mesh key: stored by a worker of this host, or fetched for one. A member's
  /// later value replaces its earlier one, as the worker has initialized again. Ignores keys that
  /// do not belong to a Horovod mesh. There is no call for DELETE: members delete their keys when
  /// all have read them, but the connections remain.
  void Note(std::string_view scope, std::string_view key, ByteView value);
  /// The same for a PUT of a worker of this host, which listens there until NoteDone().
  void NoteListening(std::string_view scope, std::string_view key, ByteView value);
  /// The worker has deleted its key: it is connected to all members of that scope.
  void NoteDone(std::string_view scope, std::string_view key);
  /// Forgets everything, for a new generation.
  void Clear();

  /// All addresses, sorted, each once. Empty while there is a problem().
  std::vector<TcpAddress> Addresses() const;
  /// Addresses on which workers of this host may still wait for peers; sorted, each once.
  std::vector<TcpAddress> Listening() const;
  /// The addresses of one member in one scope; empty: unknown.
  std::vector<TcpAddress> AddressesOf(std::string_view scope, size_t member) const;
  /// Why this generation's connections can't be identified: a value of unexpected length, so
  /// written by an unknown version of Gloo, or too many addresses. Stays until Clear(). Empty: no
  /// problem.
  const std::string& problem() const { return problem_; }
  size_t address_count() const { return address_count_; }

 private:
  struct Scope {
    size_t value_bytes = 0;  ///< The same for all members.
    std::map<size_t, std::vector<TcpAddress>> members;
    std::set<size_t> listening;  ///< Members of this host that still listen.
  };
  void Fail(std::string problem);

  StringMap<Scope> scopes_;
  size_t address_count_ = 0;
  std::string problem_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_MESH_ADDRESSES_H_
