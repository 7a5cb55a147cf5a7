// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/kv_bridge.h"

#include <utility>

#include "base/gzip.h"
#include "base/log.h"
#include "launcher/job/placement.h"

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
  question.op = OpOf(request.operation);
  question.rank = request.rank;
  question.scope = std::move(request.scope);
  question.key = std::move(request.key);
  if (question.op == KvOp::kPut || question.op == KvOp::kWorkerAddresses) {
    question.value = std::make_shared<const std::string>(std::move(request.value));
    if (question.op == KvOp::kPut) question.inflated_bytes = request.inflated_bytes;
  }
  return question;
}

void KvSender::Send(int agent, KvAnswer answer) {
  const auto waiting = waiting_.find(agent);
  if (waiting != waiting_.end()) return waiting->second.push_back(std::move(answer));
  if (HasRoom(agent)) return SendNow(agent, std::move(answer));
  waiting_[agent].push_back(std::move(answer));
}

void KvSender::OnRoom(int agent) {
  const auto waiting = waiting_.find(agent);
  if (waiting == waiting_.end()) return;
  std::deque<KvAnswer>& answers = waiting->second;
  while (!answers.empty() && HasRoom(agent)) {
    SendNow(agent, std::move(answers.front()));
    answers.pop_front();
  }
  if (answers.empty()) waiting_.erase(waiting);
}

void KvSender::SendNow(int agent, KvAnswer answer) {
  const bool takes_deflated = ways_.takes_deflated == nullptr || ways_.takes_deflated(agent);
  ways_.send(agent, ReplyOf(std::move(answer), takes_deflated));
}

KvBridge::KvBridge(KvWays ways)
    : sender_(std::move(ways)),
      store_([this](int host, KvAnswer answer) { sender_.Send(host, std::move(answer)); }) {}

void KvBridge::Reset(std::span<const RankInfo> ranks, Generation generation) {
  store_.Reset(KvAssignmentOf(ranks, generation));
}

void KvBridge::OnRequest(int host, Generation generation, wire::KvRequest request) {
  store_.Ask(host, QuestionOf(generation, std::move(request)));
}

}  // namespace hvdray
