// The stand-alone rendezvous: one port, the store behind it, no relay and no cache.
// For people who start their workers by other means.
#ifndef HVDRAY_RENDEZVOUS_SERVER_H_
#define HVDRAY_RENDEZVOUS_SERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/http_server.h"
#include "base/loop.h"
#include "base/result.h"
#include "rendezvous/cidr.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_store.h"
#include "rendezvous/peer_check.h"

namespace hvdray {

struct RendezvousOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  ///< 0: ephemeral.
  /// How long a GET of a missing numeric key of a mesh scope waits for its PUT.
  Duration kv_hold{std::chrono::seconds(1)};
  /// Peers at these addresses may speak. Needed for any other address than loopback.
  std::vector<Cidr> allow;
  /// Peers on loopback that `allow` does not name: their socket must be `user`'s or root's.
  bool is_peer_checked = true;
  uid_t user = 0;
  KvAssignment assignment;  ///< Empty: sizes are not known, and each DELETE takes its key.
  size_t store_bytes = size_t{1} << 30;
};

struct RendezvousStats {
  uint64_t requests = 0;
  uint64_t refused_peers = 0;
};

/// Threads: the loop's. Destroying it closes everything at once; Drain() first to be polite.
class RendezvousServer {
 public:
  /// Errors: as HttpServer::Listen; kUsage for another address than loopback without `allow`.
  static Result<std::unique_ptr<RendezvousServer>> Start(Loop& loop, RendezvousOptions options);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  uint16_t port() const { return http_->port(); }
  /// Accepts nothing more, answers what is held with 404 and calls `done` when all answers are
  /// written, or after `limit`.
  void Drain(Duration limit, std::function<void()> done);
  size_t held_count() const { return held_.size(); }
  const RendezvousStats& stats() const { return stats_; }
  const KvStore& store() const { return store_; }

 private:
  struct Held;
  using HeldList = std::list<Held>;

  RendezvousServer(Loop& loop, RendezvousOptions options);
  bool Admit(const HttpPeer& peer);
  void Serve(HttpExchange exchange);
  KvAnswer Ask(KvOp op, const KvCall& call, KvValue value);
  void Put(const KvCall& call, HttpExchange exchange);
  void Get(const KvCall& call, HttpExchange exchange);
  void Hold(HttpExchange exchange);
  void Forget(HeldList::iterator held);
  void AnswerWaiting(const std::string& target, const KvValue& value);
  void ExpireHeld();

  Loop& loop_;
  RendezvousOptions options_;
  PeerChecker checker_;
  KvStore store_;
  KvAnswer answer_;  // of the question that is being asked: the store answers at once
  uint64_t next_id_ = 1;
  RendezvousStats stats_;
  bool has_logged_refusal_ = false;
  HeldList held_;  // in the order of their deadlines, as all wait equally long
  StringMap<std::vector<HeldList::iterator>> waiting_;  // by target
  Watch expiry_;
  Watch drain_;
  std::unique_ptr<HttpServer> http_;  // last: its end must find the rest alive
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_SERVER_H_
