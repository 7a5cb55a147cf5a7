// SPDX-License-Identifier: Apache-2.0
// Order matters: questions leave before any reply, in the core's order, even if a reply or an
// answer triggers the next request at once.
#include "rendezvous/relay.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/log.h"
#include "rendezvous/horovod_protocol.h"

namespace hvdray {
namespace {

// One worker's share of the agent's descriptors: for its own requests and a few stray connections.
constexpr size_t kMaxConnectionsPerWorker = 1024;
// Clients connect anew for each request, so an idle connection is useless.
constexpr Duration kIdleTimeout = std::chrono::seconds(15);
// For bodies that are still arriving: a worker sends one at a time.
constexpr size_t kMaxBufferedBytes = 4 * kMaxKvValueBytes;

}  // namespace

Relay::Relay(Loop& loop, RelayOptions options, KvUpstream& upstream)
    : loop_(loop),
      options_(std::move(options)),
      checker_(::getuid()),
      core_(RelayCoreOptions{options_.kv_hold, options_.cache_bytes, options_.is_mesh_kept,
                             options_.is_barrier_held}),
      upstream_(upstream) {}

Relay::~Relay() = default;

Result<uint16_t> Relay::OpenWorker(int rank, int host_local_rank, Generation generation) {
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
    OnRequest(rank, std::move(exchange));
  };
  Result<std::unique_ptr<HttpServer>> server =
      HttpServer::Listen(loop_, std::move(http), std::move(handlers));
  if (!server.ok()) {
    return std::move(server).status().WithContext(
        fmt::format("rendezvous of worker {}:{}", options_.host, host_local_rank));
  }
  core_.OpenWorker(rank, JoinSlot(options_.host, host_local_rank), generation);
  const uint16_t port = (*server)->port();
  servers_[rank] = std::move(server).value();
  return port;
}

void Relay::CloseWorker(int rank) {
  servers_.erase(rank);
  for (const uint64_t request : core_.HeldBy(rank)) exchanges_.erase(request);
  core_.CloseWorker(rank);
}

void Relay::Reset(Generation generation) {
  core_.Reset(generation, loop_.Now(), &actions_);
  Act();
}

void Relay::EndMeshes(Generation generation) {
  core_.EndMeshes(generation, &actions_);
  Act();
}

void Relay::OnAnswer(const KvAnswer& answer) {
  core_.OnAnswer(answer, &actions_);
  Act();
}

RelayStats Relay::stats() const {
  RelayStats stats = core_.stats();
  stats.refused_requests += refused_requests_;
  stats.refused_peers = refused_peers_;
  return stats;
}

bool Relay::IsOurs(const HttpPeer& peer) {
  const PeerVerdict verdict = checker_.Check(peer.remote, peer.local);
  if (verdict == PeerVerdict::kAccepted) return true;
  // A peer that closed its socket at once is harmless. Any other refusal may be an attack, or a
  // kernel without the query, which stops every worker.
  if (verdict != PeerVerdict::kGone && refused_peers_ == 0) {
    Log(LogLevel::kWarning, "rendezvous", "{}",
        verdict == PeerVerdict::kUnknown
            ? "the kernel does not report who connects: all peers are refused; see --no-peer-check"
            : "refused a process of another user; further refusals are only counted");
  }
  ++refused_peers_;
  return false;
}

// A request on the listener of `worker`.
void Relay::OnRequest(int worker, HttpExchange exchange) {
  HttpRequest& http = exchange.request();
  // The call's views point into `target`, as `exchange` is moved below.
  const std::string target = std::move(http.target);
  const ParsedKvRequest parsed = ParseKvRequest(http.method, target, http.has_content_length);
  if (parsed.status != 200) {
    ++refused_requests_;
    return exchange.Reply(parsed.status);
  }
  KvValue body;
  if (parsed.call.verb == KvVerb::kPut) {
    body = std::make_shared<const std::string>(std::move(http.body));
  }
  const uint64_t request = ++last_request_;
  exchanges_.emplace(request, std::move(exchange));
  core_.OnRequest(worker, request, parsed.call, std::move(body), loop_.Now(), &actions_);
  Act();
  const auto held = exchanges_.find(request);
  if (held == exchanges_.end()) return;
  held->second.OnGone([this, request] {
    core_.OnGone(request);
    exchanges_.erase(request);
  });
}

void Relay::Act() {
  while (!actions_.questions.empty() || !actions_.replies.empty() || !actions_.arrivals.empty()) {
    if (!actions_.questions.empty()) {
      KvQuestion question = std::move(actions_.questions.front());
      actions_.questions.pop_front();
      upstream_.Ask(std::move(question));
      continue;
    }
    if (!actions_.arrivals.empty()) {
      const int worker = actions_.arrivals.front();
      actions_.arrivals.pop_front();
      upstream_.Arrived(worker);
      continue;
    }
    const RelayReply reply = std::move(actions_.replies.front());
    actions_.replies.pop_front();
    Reply(reply);
  }
  ArmTimer();
}

void Relay::Reply(const RelayReply& reply) {
  const auto found = exchanges_.find(reply.request);
  if (found == exchanges_.end()) return;
  HttpExchange exchange = std::move(found->second);
  exchanges_.erase(found);
  if (reply.status != 0) exchange.Reply(reply.status, reply.body);
}

void Relay::ArmTimer() {
  if (timer_.is_active()) return;
  const std::optional<TimePoint> deadline = core_.NextDeadline();
  if (!deadline) return;
  // Holds end in the order of their start, so an armed timer is never too late.
  timer_ = loop_.After(*deadline - loop_.Now(), [this] {
    timer_.Cancel();
    core_.OnTick(loop_.Now(), &actions_);
    Act();
  });
}

}  // namespace hvdray
