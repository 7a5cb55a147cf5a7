// The rendezvous of one host: a waiting room and a cache between the host's workers and the
// launcher's store. docs/rendezvous.md has the rules.
#ifndef HVDRAY_RENDEZVOUS_RELAY_H_
#define HVDRAY_RENDEZVOUS_RELAY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "base/http_server.h"
#include "base/loop.h"
#include "base/result.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/mesh_addresses.h"
#include "rendezvous/peer_check.h"
#include "rendezvous/relay_core.h"
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
/// names the speaker, which nothing in the protocol does. What is answered, held or asked upstream
/// is RelayCore's to decide.
class Relay {
 public:
  /// `upstream` is the caller's and outlives the relay; it may answer within Ask().
  Relay(Loop& loop, RelayOptions options, KvUpstream& upstream);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Opens the listener of a worker that is about to be started in `generation`; returns its port.
  /// `host_local_rank` names the speaker in rank_and_size and worker_addresses. `rank` names it in
  /// questions and in CloseWorker: any number that no other open worker of this relay has. A worker
  /// that is still open under it is closed first. Errors: kOutOfResources, kSystem.
  Result<uint16_t> OpenWorker(int rank, int host_local_rank, Generation generation);
  /// The process has been reaped: its listener and connections close, its held requests end. Not
  /// within a call to KvUpstream::Ask().
  void CloseWorker(int rank);
  /// KvReset from the launcher: the store is empty and belongs to `generation`. The cache is
  /// dropped; held GETs get 404, held PUTs and DELETEs 200; rank_and_size stays held. Workers of
  /// older generations see an empty store until rank_and_size releases them.
  void Reset(Generation generation);
  /// As in RelayCore.
  void EndMeshes(Generation generation);
  /// An answer of the launcher, in the order of the link. Those that nobody waits for are dropped.
  void OnAnswer(const KvAnswer& answer);
  /// Where that worker takes notices, once it has registered, until CloseWorker; else nullptr.
  /// Valid until the next turn of the loop.
  const WorkerAddresses* AddressesOf(int rank) const { return core_.AddressesOf(rank); }
  /// As in RelayCore.
  Generation GenerationOf(int rank) const { return core_.GenerationOf(rank); }
  bool IsParked(int rank) const { return core_.IsParked(rank); }
  const MeshAddresses& mesh() const { return core_.mesh(); }
  RelayStats stats() const;

 private:
  bool IsOurs(const HttpPeer& peer);
  void OnRequest(int worker, HttpExchange exchange);
  void Act();
  void Reply(const RelayReply& reply);
  void ArmTimer();

  Loop& loop_;
  const RelayOptions options_;
  PeerChecker checker_;
  RelayCore core_;
  KvUpstream& upstream_;
  RelayActions actions_;
  bool is_acting_ = false;
  uint64_t last_request_ = 0;
  uint64_t refused_requests_ = 0;
  uint64_t refused_peers_ = 0;
  std::unordered_map<uint64_t, HttpExchange> exchanges_;  // held, by request
  Watch timer_;
  // Last: connections go first, and with them the callbacks into the rest.
  std::unordered_map<int, std::unique_ptr<HttpServer>> servers_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_H_
