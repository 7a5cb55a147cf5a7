// SPDX-License-Identifier: Apache-2.0
// The rendezvous of one host: an HTTP front end with a cache between the host's workers and the
// launcher's store; holds requests for missing values. docs/rendezvous.md has the rules.
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

/// Opens one listener on 127.0.0.1 for each worker process, so that the port identifies the worker,
/// which nothing in the protocol does. RelayCore decides what to answer, hold or ask upstream.
/// Threads: the loop's.
class Relay {
 public:
  struct Options : RelayCoreOptions {
    bool is_peer_checked = true;  ///< Accept only processes of this user and of root.
  };

  /// Loop and `upstream` outlive the relay.
  Relay(Loop& loop, Options options, KvUpstream& upstream);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  /// Opens the listener of a worker about to be started in `generation`; returns its port.
  /// `slot`, "HOROVOD_HOSTNAME:local rank", is it in rank_and_size and worker_addresses. `rank`
  /// identifies it in questions and CloseWorker(): any number that no other open worker of this
  /// relay has. Closes a worker that is still open under it first. Errors: kOutOfResources,
  /// kSystem.
  Result<uint16_t> OpenWorker(int rank, std::string slot, Generation generation);
  /// The process was reaped: closes its listener and connections and ends its held requests.
  void CloseWorker(int rank);
  /// KvReset from the launcher: the store is empty and belongs to `generation`. Drops the cache;
  /// answers held GETs with 404, held PUTs and DELETEs with 200; keeps holding rank_and_size.
  /// Workers of older generations see an empty store until rank_and_size releases them.
  void Reset(Generation generation);
  /// As in RelayCore.
  void EndMeshes(Generation generation);
  /// An answer of the launcher, in the link's order. Drops answers that no request waits for.
  void OnAnswer(const KvAnswer& answer);
  /// That worker's registered addresses for notices, until CloseWorker(); nullptr: not registered.
  /// Valid until the next turn of the loop.
  const WorkerAddresses* AddressesOf(int rank) const { return core_.AddressesOf(rank); }
  /// As in RelayCore.
  Generation GenerationOf(int rank) const { return core_.GenerationOf(rank); }
  bool IsParked(int rank) const { return core_.IsParked(rank); }
  const MeshAddresses& mesh() const { return core_.mesh(); }
  RelayStats stats() const;

 private:
  class Port;
  void Act();
  void ArmTimer();

  Loop& loop_;
  const Options options_;
  PeerChecker checker_;
  RelayCore core_;
  KvUpstream& upstream_;
  RelayActions actions_;
  uint64_t last_request_ = 0;
  uint64_t refused_requests_ = 0;
  uint64_t refused_peers_ = 0;
  std::unordered_map<uint64_t, HttpExchange> exchanges_;  // Held, by request.
  Watch timer_;
  // Last member: destroyed first, and with the connections the callbacks into the other members.
  std::unordered_map<int, std::unique_ptr<Port>> ports_;
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_RELAY_H_
