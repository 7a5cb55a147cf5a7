// Order matters here: questions leave before any reply is sent, and in the order in which the core
// asked them, also when a reply or an answer brings the next request at once.
#include "rendezvous/kv_front.h"

#include <utility>

#include "rendezvous/horovod_protocol.h"

namespace hvdray {

void KvFront::OpenWorker(int worker, std::string slot, Generation generation) {
  core_.OpenWorker(worker, std::move(slot), generation);
}

void KvFront::CloseWorker(int worker) {
  for (const uint64_t request : core_.HeldBy(worker)) exchanges_.erase(request);
  core_.CloseWorker(worker);
}

void KvFront::Reset(Generation generation) {
  core_.Reset(generation, loop_.Now(), &actions_);
  Run();
}

void KvFront::EndMeshes(Generation generation) {
  core_.EndMeshes(generation, &actions_);
  Run();
}

void KvFront::OnAnswer(const KvAnswer& answer) {
  core_.OnAnswer(answer, &actions_);
  Run();
}

void KvFront::OnRequest(int worker, HttpExchange exchange) {
  HttpRequest& http = exchange.request();
  // The call's views point into it; the exchange moves below.
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
  Run();
  const auto held = exchanges_.find(request);
  if (held == exchanges_.end()) return;
  held->second.OnGone([this, request] {
    core_.OnGone(request);
    exchanges_.erase(request);
  });
}

RelayStats KvFront::stats() const {
  RelayStats stats = core_.stats();
  stats.refused_requests += refused_requests_;
  return stats;
}

void KvFront::Run() {
  if (is_running_) return;  // the one that runs further up the stack takes the rest
  is_running_ = true;
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
  is_running_ = false;
  ArmTimer();
}

void KvFront::Reply(const RelayReply& reply) {
  const auto found = exchanges_.find(reply.request);
  if (found == exchanges_.end()) return;
  HttpExchange exchange = std::move(found->second);
  exchanges_.erase(found);
  if (reply.status != 0) exchange.Reply(reply.status, reply.body);
}

void KvFront::ArmTimer() {
  if (timer_.is_active()) return;
  const std::optional<TimePoint> deadline = core_.NextDeadline();
  if (!deadline) return;
  // Holds end in the order in which they began: an armed timer is never too late.
  timer_ = loop_.After(*deadline - loop_.Now(), [this] {
    timer_.Cancel();
    core_.OnTick(loop_.Now(), &actions_);
    Run();
  });
}

}  // namespace hvdray
