#include "launcher/engine/kv_bridge.h"

#include <utility>

#include "launcher/placement/kv_assignment.h"

namespace hvdray {
namespace {

KvOp OpOf(wire::KvOperation operation) {
  switch (operation) {
    case wire::KvOperation::kPut:
      return KvOp::kPut;
    case wire::KvOperation::kGet:
      return KvOp::kGet;
    case wire::KvOperation::kDelete:
      return KvOp::kDelete;
    case wire::KvOperation::kFollow:
      return KvOp::kFollow;
    case wire::KvOperation::kUnfollow:
      return KvOp::kUnfollow;
    case wire::KvOperation::kRankAndSize:
      return KvOp::kRankAndSize;
    case wire::KvOperation::kWorkerAddresses:
      return KvOp::kWorkerAddresses;
  }
  return KvOp::kGet;
}

}  // namespace

wire::Message ReplyOf(KvAnswer answer) {
  wire::KvReply reply;
  reply.id = answer.id;
  reply.status = static_cast<uint16_t>(answer.status);
  reply.key = std::move(answer.key);
  if (answer.value != nullptr) reply.value = *answer.value;
  return {answer.generation, std::move(reply)};
}

KvQuestion QuestionOf(Generation generation, wire::KvRequest request) {
  KvQuestion question;
  question.id = request.id;
  question.generation = generation;
  question.op = OpOf(request.operation);
  question.rank = request.rank;
  question.scope = std::move(request.scope);
  question.key = std::move(request.key);
  if (question.op == KvOp::kPut || question.op == KvOp::kWorkerAddresses) {
    question.value = std::make_shared<const std::string>(std::move(request.value));
  }
  return question;
}

KvBridge::KvBridge(SendFn send)
    : send_(std::move(send)),
      store_([this](int host, KvAnswer answer) { send_(host, ReplyOf(std::move(answer))); }) {}

void KvBridge::Reset(std::span<const RankInfo> ranks, Generation generation) {
  store_.Reset(KvAssignmentOf(ranks, generation));
}

void KvBridge::OnRequest(int host, Generation generation, wire::KvRequest request) {
  store_.Ask(host, QuestionOf(generation, std::move(request)));
}

}  // namespace hvdray
