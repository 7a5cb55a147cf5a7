// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/kv_bridge.h"

#include <utility>

#include "base/gzip.h"
#include "base/log.h"

namespace hvdray {

wire::Message ReplyOf(KvAnswer answer, bool takes_deflated) {
  wire::KvReply reply;
  reply.id = answer.id;
  reply.status = static_cast<uint16_t>(answer.status);
  reply.key = std::move(answer.key);
  reply.inflated_bytes = answer.inflated_bytes;
  if (answer.inflated_bytes != 0 && !takes_deflated) {
    Result<std::string> inflated = Inflate(*answer.value, answer.inflated_bytes);
    // The agent sent garbage: an empty value fails its readers at once, a 404 only after a timeout.
    if (!inflated.ok()) Log(LogLevel::kWarning, "rendezvous", "{}", inflated.status().message());
    if (inflated.ok()) reply.value = std::move(inflated).value();
    reply.inflated_bytes = 0;
  } else if (answer.value != nullptr) {
    reply.value = *answer.value;
  }
  return {answer.generation, std::move(reply)};
}

KvQuestion QuestionOf(Generation generation, wire::KvRequest request) {
  KvQuestion question;
  question.id = request.id;
  question.generation = generation;
  question.op = request.operation;
  question.rank = request.rank;
  question.scope = std::move(request.scope);
  question.key = std::move(request.key);
  if (question.op == KvOp::kPut || question.op == KvOp::kWorkerAddresses) {
    question.value = std::make_shared<const std::string>(std::move(request.value));
    if (question.op == KvOp::kPut) question.inflated_bytes = request.inflated_bytes;
  }
  return question;
}

KvBridge::KvBridge(AgentLinks& links, Hold hold, Listener* listener)
    : hold_(hold), listener_(listener), links_(links), store_(*this) {}

void KvBridge::Answer(int agent, KvAnswer answer) {
  if (waiting_.contains(agent) || !links_.HasControlRoom(agent)) {
    waiting_[agent].push_back(std::move(answer));
  } else {
    links_.Send(agent, ReplyOf(std::move(answer), links_.TakesDeflated(agent)));
  }
}

void KvBridge::OnRoom(int agent) {
  const auto waiting = waiting_.find(agent);
  if (waiting == waiting_.end()) return;
  std::deque<KvAnswer>& answers = waiting->second;
  while (!answers.empty() && links_.HasControlRoom(agent)) {
    links_.Send(agent, ReplyOf(std::move(answers.front()), links_.TakesDeflated(agent)));
    answers.pop_front();
  }
  if (answers.empty()) waiting_.erase(waiting);
}

void KvBridge::OnRequest(int agent, Generation generation, wire::KvRequest request) {
  const KvQuestion question = QuestionOf(generation, std::move(request));
  if (hold_ == Hold::kNothing) return store_.Ask(agent, question);
  if (question.op == KvOp::kRankAndSize) {
    std::vector<RankAnswer> answers;
    const bool is_news = ranks_.Ask(agent, question, &answers);
    Send(std::move(answers));
    if (is_news) listener_->OnRankAsked(question.rank);
  } else if (question.op == KvOp::kWorkerAddresses) {
    if (ranks_.Register(question)) listener_->OnRegistered(question.rank);
  } else {
    const uint64_t refused = store_.refused_questions();
    store_.Ask(agent, question);
    if (store_.refused_questions() == refused) TellMet(question);
    TellConnected(question);
  }
}

void KvBridge::TellMet(const KvQuestion& question) {
  const KvAssignment& assignment = store_.assignment();
  const bool is_address = question.op == KvOp::kPut && question.scope == kBarrierScope &&
                          KindOfKey(question.key) == KeyKind::kNumber;
  if (!assignment.is_barrier_held || !is_address) return;
  if (question.generation != assignment.generation) return;
  listener_->OnMet(question.rank, *NumberOfKey(question.key));
}

void KvBridge::TellConnected(const KvQuestion& question) {
  const bool is_last = question.op == KvOp::kDelete && IsLastScopeOfInit(question.scope);
  if (hold_ != Hold::kRanksAndBarrier || !is_last || question.rank < 0) return;
  if (question.generation == store_.generation()) listener_->OnConnected(question.rank);
}

void KvBridge::Reset(std::span<const RankInfo> ranks, Generation generation) {
  KvAssignment assignment = ToKvAssignment(ranks, generation);
  assignment.is_barrier_held = hold_ == Hold::kRanksAndBarrier;
  store_.Reset(std::move(assignment));
}

void KvBridge::DropAgent(int agent) {
  store_.DropRelay(agent);
  waiting_.erase(agent);
  ranks_.DropRelay(agent);
}

void KvBridge::Send(std::vector<RankAnswer> answers) {
  for (RankAnswer& answer : answers) {
    Answer(answer.relay, std::move(answer.answer));
  }
}

}  // namespace hvdray
