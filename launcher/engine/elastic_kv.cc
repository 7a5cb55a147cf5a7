#include "launcher/engine/elastic_kv.h"

#include <utility>

#include "launcher/engine/kv_bridge.h"
#include "launcher/placement/kv_assignment.h"
#include "rendezvous/horovod_protocol.h"

namespace hvdray {

ElasticKv::ElasticKv(ElasticMode mode, Handlers handlers)
    : is_held_(mode == ElasticMode::kHorovod),
      handlers_(std::move(handlers)),
      store_([this](int agent, KvAnswer answer) {
        handlers_.send(agent, ReplyOf(std::move(answer)));
      }) {}

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
    store_.Ask(agent, question);
  }
}

void ElasticKv::Reset(std::span<const RankInfo> ranks, Generation generation) {
  store_.Reset(KvAssignmentOf(ranks, generation));
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
  ranks_.DropRelay(agent);
}

void ElasticKv::Send(std::vector<RankAnswer> answers) {
  for (RankAnswer& answer : answers) {
    handlers_.send(answer.relay, ReplyOf(std::move(answer.answer)));
  }
}

}  // namespace hvdray
