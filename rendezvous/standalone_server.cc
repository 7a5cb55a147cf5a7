// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/standalone_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "base/tcp_address.h"

namespace hvdray {

struct RendezvousServer::Held {
  HttpExchange exchange;
  TimePoint due;
  size_t index = 0;  // In its row of waiting_.
};

Result<std::unique_ptr<RendezvousServer>> RendezvousServer::Start(Loop& loop,
                                                                  RendezvousOptions options) {
  const auto address = ParseIpv4(options.address);
  if (!address) {
    return Status(ErrorCode::kUsage, fmt::format("'{}' is not an IPv4 address", options.address),
                  "Horovod's workers reach a rendezvous over IPv4 only");
  }
  if (!IsLoopback(*address) && options.allow.empty()) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{} can be reached from the network, and the protocol has no "
                              "authentication",
                              options.address),
                  "name the addresses of your workers: --allow CIDR[,...]");
  }
  std::unique_ptr<RendezvousServer> server(new RendezvousServer(loop, std::move(options)));
  HttpServerOptions http;
  http.address = server->options_.address;
  http.port = server->options_.port;
  http.limits.max_body_bytes = kMaxKvValueBytes;
  HVDRAY_ASSIGN_OR_RETURN(server->http_, HttpServer::Listen(loop, std::move(http), *server));
  return server;
}

RendezvousServer::RendezvousServer(Loop& loop, RendezvousOptions options)
    : loop_(loop),
      options_(std::move(options)),
      checker_(options_.user),
      store_(*this, options_.store_bytes) {
  store_.Reset(options_.assignment);
}

RendezvousServer::~RendezvousServer() = default;

bool RendezvousServer::IsWelcome(const HttpPeer& peer) {
  const uint32_t address = ntohl(peer.remote.sin_addr.s_addr);
  if (Contains(options_.allow, address)) return true;
  PeerVerdict verdict = PeerVerdict::kNotLocal;
  if (IsLoopback(address)) {
    verdict =
        options_.is_peer_checked ? checker_.Check(peer.remote, peer.local) : PeerVerdict::kAccepted;
  }
  if (verdict == PeerVerdict::kAccepted) return true;
  ++stats_.refused_peers;
  if (verdict != PeerVerdict::kGone && !std::exchange(has_logged_refusal_, true)) {
    const std::string_view why = verdict == PeerVerdict::kOtherUser ? "it belongs to another user"
                                 : verdict == PeerVerdict::kUnknown
                                     ? "this kernel does not report its owner (--no-peer-check)"
                                     : "--allow does not include it";
    Log(LogLevel::kWarning, "rendezvous", "refused a peer at {}.{}.{}.{}: {}", address >> 24,
        address >> 16 & 255, address >> 8 & 255, address & 255, why);
  }
  return false;
}

void RendezvousServer::OnRequest(HttpExchange exchange) {
  ++stats_.requests;
  const HttpRequest& request = exchange.request();
  const ParsedKvRequest parsed =
      ParseKvRequest(request.method, request.target, request.has_content_length);
  if (parsed.status != 200) return exchange.Reply(parsed.status);
  const KvCall& call = parsed.call;
  if (call.scope_kind == ScopeKind::kRankAndSize) {
    if (call.verb != KvVerb::kGet) return exchange.Reply(405);
    const KvAnswer answer = Ask(KvOp::kRankAndSize, call, nullptr);
    return exchange.Reply(answer.status, answer.value);
  }
  // The stand-alone rendezvous sends no notices, so it does not keep the worker's secret key.
  if (call.scope_kind == ScopeKind::kWorkerAddresses) {
    return exchange.Reply(call.verb == KvVerb::kGet ? 404 : 200);
  }
  switch (call.verb) {
    case KvVerb::kPut:
      return Put(call, std::move(exchange));
    case KvVerb::kGet:
      return Get(call, std::move(exchange));
    case KvVerb::kDelete:
      return exchange.Reply(Ask(KvOp::kDelete, call, nullptr).status);
  }
}

KvAnswer RendezvousServer::Ask(KvOp op, const KvCall& call, KvValue value) {
  store_.Ask(/*relay=*/0,
             KvQuestion{next_id_++, store_.generation(), op, /*rank=*/-1, std::string(call.scope),
                        std::string(call.key), std::move(value)});
  return std::move(answer_);
}

void RendezvousServer::Put(const KvCall& call, HttpExchange exchange) {
  const KvValue value = std::make_shared<const std::string>(std::move(exchange.request().body));
  const int status = Ask(KvOp::kPut, call, value).status;
  exchange.Reply(status);
  if (status == 200 && !waiting_.empty()) AnswerWaiting(exchange.request().target, value);
}

void RendezvousServer::Get(const KvCall& call, HttpExchange exchange) {
  const KvAnswer answer = Ask(KvOp::kGet, call, nullptr);
  const bool is_worth_waiting = answer.status == 404 && call.is_mesh() &&
                                call.key_kind == KeyKind::kNumber &&
                                options_.kv_hold > Duration::zero() && !drain_.is_active();
  if (is_worth_waiting) return Hold(std::move(exchange));
  exchange.Reply(answer.status, answer.value);
}

void RendezvousServer::Hold(HttpExchange exchange) {
  std::vector<HeldList::iterator>& row = waiting_[exchange.request().target];
  held_.push_back(Held{std::move(exchange), loop_.Now() + options_.kv_hold, row.size()});
  const auto held = std::prev(held_.end());
  row.push_back(held);
  held->exchange.OnGone([this, held] { Forget(held); });
  if (!expiry_.is_active()) {
    expiry_ = loop_.After(options_.kv_hold, [this] { ExpireHeld(); });
  }
}

void RendezvousServer::Forget(HeldList::iterator held) {
  const auto entry = waiting_.find(held->exchange.request().target);
  std::vector<HeldList::iterator>& row = entry->second;
  row.back()->index = held->index;
  row[held->index] = row.back();
  row.pop_back();
  if (row.empty()) waiting_.erase(entry);
  held_.erase(held);
}

void RendezvousServer::AnswerWaiting(const std::string& target, const KvValue& value) {
  const auto entry = waiting_.find(target);
  if (entry == waiting_.end()) return;
  const std::vector<HeldList::iterator> row = std::move(entry->second);
  waiting_.erase(entry);
  for (const HeldList::iterator held : row) {
    held->exchange.Reply(200, value);
    held_.erase(held);
  }
}

void RendezvousServer::ExpireHeld() {
  const TimePoint now = loop_.Now();
  while (!held_.empty() && held_.front().due <= now) {
    held_.front().exchange.Reply(404);
    Forget(held_.begin());
  }
  expiry_.Cancel();
  if (!held_.empty()) {
    expiry_ = loop_.After(held_.front().due - now, [this] { ExpireHeld(); });
  }
}

void RendezvousServer::Drain(Duration limit, std::function<void()> done) {
  http_->CloseListener();
  const TimePoint deadline = loop_.Now() + limit;
  drain_ = loop_.Every(std::chrono::milliseconds(5), [this, deadline, done = std::move(done)] {
    while (!held_.empty()) {
      held_.front().exchange.Reply(404);
      Forget(held_.begin());
    }
    if (!http_->IsIdle() && loop_.Now() < deadline) return;
    drain_.Cancel();
    done();
  });
}

}  // namespace hvdray
