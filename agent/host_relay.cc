// SPDX-License-Identifier: Apache-2.0
#include "agent/host_relay.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "base/gzip.h"
#include "base/log.h"

namespace hvdray {
namespace {

// Smaller values, those of jobs with fewer than some thirty workers, are sent as they are.
constexpr size_t kMinDeflatedBytes = 4096;

// Addresses are mostly zeros. A value that does not shrink by a quarter is sent as it is.
void DeflateValue(wire::KvRequest& request) {
  const size_t size = request.value.size();
  if (size < kMinDeflatedBytes) return;
  Result<std::string> deflated = Deflate(request.value);
  if (!deflated.ok() || deflated->size() > size - size / 4) return;
  request.value = std::move(deflated).value();
  request.inflated_bytes = static_cast<uint32_t>(size);
}

Relay::Options RelayOptions(const wire::Welcome& welcome) {
  Relay::Options options;
  options.kv_hold = std::chrono::milliseconds(welcome.kv_hold_ms);
  options.cache_bytes = static_cast<size_t>(welcome.kv_cache_bytes);
  options.is_peer_checked = welcome.is_peer_checked;
  options.is_mesh_kept = welcome.is_elastic;
  options.is_barrier_held = welcome.is_elastic;
  return options;
}

}  // namespace

HostRelay::HostRelay(Loop& loop, wire::Link& link, const wire::Welcome& welcome)
    : link_(link),
      takes_deflated_(welcome.takes_deflated),
      relay_(loop, RelayOptions(welcome), static_cast<KvUpstream&>(*this)) {}

Status HostRelay::On(Generation generation, wire::KvReply&& reply) {
  KvAnswer answer;
  answer.id = reply.id;
  answer.generation = generation;
  answer.status = reply.status;
  answer.key = std::move(reply.key);
  if (reply.inflated_bytes != 0) {
    Result<std::string> inflated = Inflate(reply.value, reply.inflated_bytes);
    if (!inflated.ok()) Log(LogLevel::kWarning, "agent", "{}", inflated.status().message());
    reply.value = std::move(inflated).value_or("");
  }
  answer.value = std::make_shared<const std::string>(std::move(reply.value));
  relay_.OnAnswer(answer);
  return {};
}

Status HostRelay::On(Generation generation, wire::KvReset&& /*reset*/) {
  relay_.Reset(generation);
  return {};
}

void HostRelay::Ask(KvQuestion question) {
  wire::KvRequest request;
  request.id = question.id;
  request.operation = question.op;
  request.rank = question.rank;
  request.scope = std::move(question.scope);
  request.key = std::move(question.key);
  if (question.value) request.value = *question.value;
  if (question.op == KvOp::kPut && takes_deflated_) DeflateValue(request);
  link_.Send({question.generation, std::move(request)});
}

void HostRelay::Arrived(int worker) {
  link_.Send({relay_.GenerationOf(worker), wire::WorkerArrived{worker}});
}

}  // namespace hvdray
