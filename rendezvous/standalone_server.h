// SPDX-License-Identifier: Apache-2.0
// The stand-alone rendezvous of `hvdray rendezvous`: one port and the store, without relay or
// cache, for workers that another tool starts. docs/rendezvous.md, "Alone".
#ifndef HVDRAY_RENDEZVOUS_STANDALONE_SERVER_H_
#define HVDRAY_RENDEZVOUS_STANDALONE_SERVER_H_

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

/// The options of `hvdray rendezvous`.
struct RendezvousOptions {
  std::string address = "127.0.0.1";
  uint16_t port = 0;  ///< 0: ephemeral.
  /// How long a GET of a missing numeric key in a mesh scope waits for its PUT.
  Duration kv_hold{std::chrono::seconds(1)};
  /// Accepts peers at these addresses. Required unless `address` is loopback.
  std::vector<Cidr> allow;
  /// For loopback peers not in `allow`: requires that `user` or root owns their socket.
  bool is_peer_checked = true;
  uid_t user = 0;
  KvAssignment assignment;  ///< Empty: sizes are unknown, and each DELETE removes its key.
  size_t store_bytes = size_t{1} << 30;
};

/// Counts since Start().
struct RendezvousStats {
  uint64_t requests = 0;
  uint64_t refused_peers = 0;
};

/// Destroying it closes all connections at once; call Drain() before for an orderly end. Threads:
/// the loop's.
class RendezvousServer final : private HttpServerOwner, private KvStore::Owner {
 public:
  /// Listens. The loop outlives the server. Errors: as HttpServer::Listen(); kUsage for an address
  /// that is not IPv4, or not loopback without `allow`.
  static Result<std::unique_ptr<RendezvousServer>> Start(Loop& loop, RendezvousOptions options);
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  uint16_t port() const { return http_->port(); }
  /// Closes the listener, answers held requests with 404 and calls `done`, from the loop, when all
  /// answers are written or `limit` has passed.
  void Drain(Duration limit, std::function<void()> done);
  /// Number of GETs that wait for their value.
  size_t held_count() const { return held_.size(); }
  const RendezvousStats& stats() const { return stats_; }
  const KvStore& store() const { return store_; }

 private:
  struct Held;
  using HeldList = std::list<Held>;

  RendezvousServer(Loop& loop, RendezvousOptions options);
  bool IsWelcome(const HttpPeer& peer) override;
  void OnRequest(HttpExchange exchange) override;
  KvAnswer Ask(KvOp op, const KvCall& call, KvValue value);
  void Answer(int /*relay*/, KvAnswer answer) override { answer_ = std::move(answer); }
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
  KvAnswer answer_;  // To the present question: the store answers within Ask().
  uint64_t next_id_ = 1;
  RendezvousStats stats_;
  bool has_logged_refusal_ = false;
  HeldList held_;  // In the order of their deadlines, as all wait equally long.
  StringMap<std::vector<HeldList::iterator>> waiting_;  // By target.
  Watch expiry_;
  Watch drain_;
  std::unique_ptr<HttpServer> http_;  // Last member: its callbacks use the others.
};

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_STANDALONE_SERVER_H_
