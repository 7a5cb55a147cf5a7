// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_kv.h"

#include <utility>

#include "launcher/job/placement.h"
#include "rendezvous/horovod_protocol.h"

namespace hvdray {

ElasticKv::ElasticKv(ElasticMode mode, bool is_barrier_held, Handlers handlers)
    : is_held_(mode == ElasticMode::kHorovod),
      is_barrier_held_(is_held_ && is_barrier_held),
      handlers_(std::move(handlers)),
      sender_(handlers_.ways),
      store_([this](int agent, KvAnswer answer) { sender_.Send(agent, std::move(answer)); }) {}

void ElasticKv::OnRequest(int agent, Generation generation, wire::KvRequest request) {
  const KvQuestion question = QuestionOf(generation, std::move(request));
  if (question.op == KvOp::kRankAndSize && is_held_) {
    std::vector<RankAnswer> answers;
    const bool is_news = ranks_.Ask(agent, question, &answers);
    Send(std::move(answers));
    if (is_news) handlers_.on_rank_asked(question.rank);
  } else if (question.op == KvOp::kWorkerAddresses && is_held_) {
    if (ranks_.Register(question)) handlers_.on_registered(question.rank);
  } else {
    const uint64_t refused = store_.refused_questions();
    store_.Ask(agent, question);
    if (store_.refused_questions() == refused) TellMet(question);
    TellConnected(question);
  }
}

void ElasticKv::TellMet(const KvQuestion& question) {
  const KvAssignment& assignment = store_.assignment();
  const bool is_address = question.op == KvOp::kPut && question.scope == kBarrierScope &&
                          KindOfKey(question.key) == KeyKind::kNumber;
  if (!assignment.is_barrier_held || !is_address) return;
  if (question.generation != assignment.generation) return;
  handlers_.on_met(question.rank, *NumberOfKey(question.key));
}

void ElasticKv::TellConnected(const KvQuestion& question) {
  const bool is_last = question.op == KvOp::kDelete && IsLastScopeOfInit(question.scope);
  if (!is_barrier_held_ || !is_last || question.rank < 0) return;
  if (question.generation == store_.generation()) handlers_.on_connected(question.rank);
}

void ElasticKv::Reset(std::span<const RankInfo> ranks, Generation generation) {
  KvAssignment assignment = KvAssignmentOf(ranks, generation);
  assignment.is_barrier_held = is_barrier_held_;
  store_.Reset(std::move(assignment));
}

void ElasticKv::Release() { Send(ranks_.Publish(store_.assignment())); }

void ElasticKv::Close() {
  if (is_held_) Send(ranks_.Close());
}

void ElasticKv::Admit(std::string_view host, int local_rank) {
  ranks_.Admit(JoinSlot(host, local_rank));
}

void ElasticKv::Forget(std::string_view host, int local_rank) {
  ranks_.Forget(JoinSlot(host, local_rank));
}

void ElasticKv::DropAgent(int agent) {
  store_.DropRelay(agent);
  sender_.Drop(agent);
  ranks_.DropRelay(agent);
}

void ElasticKv::Send(std::vector<RankAnswer> answers) {
  for (RankAnswer& answer : answers) {
    sender_.Send(answer.relay, std::move(answer.answer));
  }
}

}  // namespace hvdray
