// Where the Gloo meshes of a generation listen, learnt from the values that pass through the relay:
// what tells a connection between two workers of the gang from every other connection of theirs.
// Pure. Horovod spec 2.3, 3.10.1.
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

/// A record of a mesh value: a sockaddr_storage of the worker's machine and a number of 8 bytes.
inline constexpr size_t kMeshRecordBytes = 136;
/// Different addresses that are kept in all; a member has one as a rule.
inline constexpr size_t kMaxMeshAddresses = size_t{1} << 18;
inline constexpr size_t kMaxMeshScopes = 4096;

/// The different addresses in a value of whole records. Skipped is what does not parse: another
/// family, port 0, no certain machine. A rest that is no whole record is ignored.
std::vector<TcpAddress> ReadMeshRecords(ByteView value);

/// Threads: one.
class MeshAddresses {
 public:
  /// A value of the key `key` of `scope` that a worker of this host has PUT or that came for one.
  /// A later value of a member replaces its earlier one: the worker has begun anew. Keys that are
  /// not of a Horovod mesh have no effect. A DELETE is not told: members delete their keys when all
  /// have read them, and the connections live on.
  void Note(std::string_view scope, std::string_view key, ByteView value);
  /// The same of a worker of this host, which has PUT it: it listens there until NoteDone().
  void NoteListening(std::string_view scope, std::string_view key, ByteView value);
  /// It has deleted its key: it is connected to all members of that scope.
  void NoteDone(std::string_view scope, std::string_view key);
  /// A new generation: nothing is known.
  void Clear();

  /// All addresses, sorted, each once. Empty while problem() is not.
  std::vector<TcpAddress> Addresses() const;
  /// Where workers of this host may still wait for others; sorted, each once.
  std::vector<TcpAddress> Listening() const;
  /// Those of one member of one scope; empty: not known.
  std::vector<TcpAddress> AddressesOf(std::string_view scope, size_t member) const;
  /// Why no connection of this generation can be told from others: a value whose length does not
  /// fit, so written by a Gloo that is not known here, or too many of them. Stays until Clear().
  /// Empty: all is well.
  const std::string& problem() const { return problem_; }
  size_t address_count() const { return address_count_; }

 private:
  struct Scope {
    size_t value_bytes = 0;  ///< The same for all members.
    std::map<size_t, std::vector<TcpAddress>> members;
    std::set<size_t> listening;  ///< Of these.
  };
  void Fail(std::string problem);

  StringMap<Scope> scopes_;
  size_t address_count_ = 0;
  std::string problem_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_MESH_ADDRESSES_H_
