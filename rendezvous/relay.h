// The rendezvous of one host: a waiting room and a cache between the host's workers and the
// launcher's store. docs/rendezvous.md has the rules.
#ifndef HVDRAY_RENDEZVOUS_RELAY_H_
#define HVDRAY_RENDEZVOUS_RELAY_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/result.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/mesh_addresses.h"
#include "rendezvous/relay_stats.h"
#include "rendezvous/restricted_pickle.h"

namespace hvdray {

struct RelayOptions {
  std::string host;  ///< HOROVOD_HOSTNAME of the workers here.
  /// How long a GET of a value that is not there yet waits for it. Horovod has no read timeout.
  Duration kv_hold{std::chrono::seconds(1)};
  size_t cache_bytes = size_t{1} << 30;
  bool is_mesh_kept = false;     ///< For mesh().
  bool is_meeting_held = false;  ///< As in RelayCoreOptions.
  bool is_peer_checked = true;   ///< Only processes of this user and of root are heard.
};

/// Threads: the loop's. Opens one listener on 127.0.0.1 for each worker process, so that the port
/// names the speaker, which nothing in the protocol does.
class Relay {
 public:
  virtual ~Relay() = default;
  /// Opens the listener of a worker that is about to be started in `generation`; returns its port.
  /// `host_local_rank` names the speaker in rank_and_size and worker_addresses. `rank` names it in
  /// questions and in CloseWorker: any number that no other open worker of this relay has. A worker
  /// that is still open under it is closed first. Errors: kOutOfResources, kSystem.
  virtual Result<uint16_t> OpenWorker(int rank, int host_local_rank, Generation generation) = 0;
  /// The process has been reaped: its listener and connections close, its held requests end. Not
  /// within a call to KvUpstream::Ask().
  virtual void CloseWorker(int rank) = 0;
  /// KvReset from the launcher: the store is empty and belongs to `generation`. The cache is
  /// dropped; held GETs get 404, held PUTs and DELETEs 200; rank_and_size stays held. Workers of
  /// older generations see an empty store until rank_and_size releases them.
  virtual void Reset(Generation generation) = 0;
  /// As in RelayCore.
  virtual void EndMeshes(Generation generation) = 0;
  /// An answer of the launcher, in the order of the link. Those that nobody waits for are dropped.
  virtual void OnAnswer(KvAnswer answer) = 0;
  /// Where that worker takes notices, once it has registered, until CloseWorker; else nullptr.
  /// Valid until the next turn of the loop.
  virtual const WorkerAddresses* AddressesOf(int rank) const = 0;
  /// As in RelayCore.
  virtual Generation GenerationOf(int rank) const = 0;
  virtual bool IsParked(int rank) const = 0;
  virtual const MeshAddresses& mesh() const = 0;
  virtual RelayStats stats() const = 0;
};

/// `upstream` is the caller's and outlives the relay.
std::unique_ptr<Relay> MakeRelay(Loop& loop, RelayOptions options, KvUpstream& upstream);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_H_
