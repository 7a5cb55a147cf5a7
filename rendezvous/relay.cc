// Listeners and who may speak on them; everything else is KvFront's and RelayCore's.
#include "rendezvous/relay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <unordered_map>
#include <utility>

#include "base/http_server.h"
#include "base/log.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_front.h"
#include "rendezvous/peer_check.h"

namespace hvdray {
namespace {

// One worker's share of the descriptors of its agent: its own requests and a few strangers.
constexpr size_t kMaxConnectionsPerWorker = 1024;
// Clients make a connection for each request; whoever says nothing makes room soon.
constexpr Duration kIdleTimeout = std::chrono::seconds(15);
// Bodies that are still arriving: a worker sends one at a time.
constexpr size_t kMaxBufferedBytes = 4 * kMaxKvValueBytes;

class RelayImpl final : public Relay {
 public:
  RelayImpl(Loop& loop, RelayOptions options, KvUpstream& upstream)
      : loop_(loop),
        options_(std::move(options)),
        checker_(::getuid()),
        front_(loop,
               RelayCoreOptions{options_.kv_hold, options_.cache_bytes, options_.is_mesh_kept,
                                options_.is_meeting_held},
               upstream) {}

  Result<uint16_t> OpenWorker(int rank, int host_local_rank, Generation generation) override {
    CloseWorker(rank);
    HttpServerOptions http;
    http.limits.max_body_bytes = kMaxKvValueBytes;
    http.max_connections = kMaxConnectionsPerWorker;
    http.idle_timeout = kIdleTimeout;
    http.max_buffered_bytes = kMaxBufferedBytes;
    HttpServer::Handlers handlers;
    if (options_.is_peer_checked) {
      handlers.on_connect = [this](const HttpPeer& peer) { return IsOurs(peer); };
    }
    handlers.on_request = [this, rank](HttpExchange exchange) {
      front_.OnRequest(rank, std::move(exchange));
    };
    Result<std::unique_ptr<HttpServer>> server =
        HttpServer::Listen(loop_, std::move(http), std::move(handlers));
    if (!server.ok()) {
      return std::move(server).status().WithContext(
          fmt::format("rendezvous of worker {}:{}", options_.host, host_local_rank));
    }
    front_.OpenWorker(rank, JoinSlot(options_.host, host_local_rank), generation);
    const uint16_t port = (*server)->port();
    servers_[rank] = std::move(server).value();
    return port;
  }

  void CloseWorker(int rank) override {
    servers_.erase(rank);
    front_.CloseWorker(rank);
  }

  void Reset(Generation generation) override { front_.Reset(generation); }
  void EndMeshes(Generation generation) override { front_.EndMeshes(generation); }
  void OnAnswer(KvAnswer answer) override { front_.OnAnswer(answer); }

  const WorkerAddresses* AddressesOf(int rank) const override {
    return front_.core().AddressesOf(rank);
  }

  Generation GenerationOf(int rank) const override { return front_.core().GenerationOf(rank); }
  bool IsParked(int rank) const override { return front_.core().IsParked(rank); }
  const MeshAddresses& mesh() const override { return front_.core().mesh(); }

  RelayStats stats() const override {
    RelayStats stats = front_.stats();
    stats.refused_peers = refused_peers_;
    return stats;
  }

 private:
  bool IsOurs(const HttpPeer& peer) {
    const PeerVerdict verdict = checker_.Check(peer.remote, peer.local);
    if (verdict == PeerVerdict::kAccepted) return true;
    // Whoever closed its socket at once is not worth a line; the others may be an attack or a
    // kernel that says nothing, and then no worker gets on.
    if (verdict != PeerVerdict::kGone && refused_peers_ == 0) {
      Log(LogLevel::kWarning, "rendezvous", "{}",
          verdict == PeerVerdict::kUnknown
              ? "the kernel does not tell who connects, so nobody is heard; see --no-peer-check"
              : "refused a process of another user; further ones are only counted");
    }
    ++refused_peers_;
    return false;
  }

  Loop& loop_;
  RelayOptions options_;
  PeerChecker checker_;
  uint64_t refused_peers_ = 0;
  KvFront front_;
  // After front_: connections go first, and with them the callbacks into it.
  std::unordered_map<int, std::unique_ptr<HttpServer>> servers_;
};

}  // namespace

std::unique_ptr<Relay> MakeRelay(Loop& loop, RelayOptions options, KvUpstream& upstream) {
  return std::make_unique<RelayImpl>(loop, std::move(options), upstream);
}

}  // namespace hvdray
