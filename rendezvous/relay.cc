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

/// The listener of one worker.
class Relay::Port final : public HttpServerOwner {
 public:
  Port(Relay& relay, int worker) : relay_(relay), worker_(worker) {}
  Status Listen();
  uint16_t number() const { return server_->port(); }
  bool IsWelcome(const HttpPeer& peer) override;
  void OnRequest(HttpExchange exchange) override;

 private:
  Relay& relay_;
  const int worker_;
  std::unique_ptr<HttpServer> server_;
};

Relay::Relay(Loop& loop, Relay::Options options, KvUpstream& upstream)
    : loop_(loop), options_(options), checker_(::getuid()), core_(options_), upstream_(upstream) {}

Relay::~Relay() = default;

Result<uint16_t> Relay::OpenWorker(int rank, std::string slot, Generation generation) {
  CloseWorker(rank);
  auto port = std::make_unique<Port>(*this, rank);
  if (Status status = port->Listen(); !status.ok()) {
    return std::move(status).WithContext("rendezvous of worker " + slot);
  }
  core_.OpenWorker(rank, std::move(slot), generation);
  return (ports_[rank] = std::move(port))->number();
}

Status Relay::Port::Listen() {
  HttpServerOptions http;
  http.limits.max_body_bytes = kMaxKvValueBytes;
  http.max_connections = kMaxConnectionsPerWorker;
  http.idle_timeout = kIdleTimeout;
  http.max_buffered_bytes = kMaxBufferedBytes;
  HVDRAY_ASSIGN_OR_RETURN(server_, HttpServer::Listen(relay_.loop_, std::move(http), *this));
  return {};
}

void Relay::CloseWorker(int rank) {
  ports_.erase(rank);
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

bool Relay::Port::IsWelcome(const HttpPeer& peer) {
  if (!relay_.options_.is_peer_checked) return true;
  const PeerVerdict verdict = relay_.checker_.Check(peer.remote, peer.local);
  if (verdict == PeerVerdict::kAccepted) return true;
  // A peer that closed its socket at once is harmless. Any other refusal may be an attack, or a
  // kernel without the query, which stops every worker.
  if (verdict != PeerVerdict::kGone && relay_.refused_peers_ == 0) {
    Log(LogLevel::kWarning, "rendezvous", "{}",
        verdict == PeerVerdict::kUnknown
            ? "the kernel does not report who connects: all peers are refused; see --no-peer-check"
            : "refused a process of another user; further refusals are only counted");
  }
  ++relay_.refused_peers_;
  return false;
}

void Relay::Port::OnRequest(HttpExchange exchange) {
  HttpRequest& http = exchange.request();
  // The call's views point into `target`, as `exchange` is moved below.
  const std::string target = std::move(http.target);
  const ParsedKvRequest parsed = ParseKvRequest(http.method, target, http.has_content_length);
  if (parsed.status != 200) {
    ++relay_.refused_requests_;
    return exchange.Reply(parsed.status);
  }
  KvValue body;
  if (parsed.call.verb == KvVerb::kPut) {
    body = std::make_shared<const std::string>(std::move(http.body));
  }
  Relay& relay = relay_;
  const uint64_t request = ++relay.last_request_;
  relay.exchanges_.emplace(request, std::move(exchange));
  relay.core_.OnRequest(worker_, request, parsed.call, std::move(body), relay.loop_.Now(),
                        &relay.actions_);
  relay.Act();
  const auto held = relay.exchanges_.find(request);
  if (held == relay.exchanges_.end()) return;
  held->second.OnGone([&relay, request] {
    relay.core_.OnGone(request);
    relay.exchanges_.erase(request);
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
    auto exchange = exchanges_.extract(reply.request);
    if (!exchange.empty() && reply.status != 0) {
      exchange.mapped().Reply(reply.status, reply.body);
    }
  }
  ArmTimer();
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
