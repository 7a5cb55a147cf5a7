// SPDX-License-Identifier: Apache-2.0
// Handles the requests of workers: answers them, holds them or passes them upstream.
#include "rendezvous/relay_core.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/log.h"
#include "rendezvous/kv_upstream.h"
#include "rendezvous/pickle_machine.h"

namespace hvdray {
namespace {

const KvValue& RemovedFromJob() {
  static const KvValue text = std::make_shared<const std::string>(kRemovedFromJob);
  return text;
}

}  // namespace

RelayCore::RelayCore(RelayCoreOptions options)
    : held_(options.kv_hold),
      questions_(stats_),
      meshes_({options.cache_bytes, options.is_mesh_kept, options.is_barrier_held}, held_,
              questions_, stats_) {}

void RelayCore::OpenWorker(int worker, std::string slot, Generation generation) {
  CloseWorker(worker);
  if (this->generation() == 0) questions_.Begin(generation);
  Worker& opened = workers_[worker];
  opened.slot = std::move(slot);
  opened.generation = generation;
}

void RelayCore::CloseWorker(int worker) {
  const auto closed = workers_.find(worker);
  if (closed == workers_.end()) return;
  for (const uint64_t request : HeldBy(worker)) OnGone(request);
  if (const auto parked = parked_.find(closed->second.slot); parked != parked_.end()) {
    questions_.Drop(parked->second);
    parked_.erase(parked);
  }
  workers_.erase(closed);
}

const WorkerAddresses* RelayCore::AddressesOf(int worker) const {
  const auto found = workers_.find(worker);
  if (found == workers_.end() || !found->second.addresses) return nullptr;
  return &*found->second.addresses;
}

Generation RelayCore::GenerationOf(int worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? Generation{0} : found->second.generation;
}

bool RelayCore::IsParked(int worker) const {
  const std::vector<uint64_t> held = HeldBy(worker);
  return std::any_of(held.begin(), held.end(), [this](uint64_t request) {
    return held_.Find(request)->kind == HeldRequest::Kind::kRankAndSize;
  });
}

void RelayCore::OnRequest(int worker, uint64_t request, const KvCall& call, KvValue body,
                          TimePoint now, RelayActions* out) {
  ++stats_.requests;
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return held_.Answer(request, 0, nullptr, out);
  Worker& speaker = found->second;
  if (held_.CountOf(worker) >= kMaxHeldPerWorker) {
    if (stats_.over_limit++ == 0) {
      Log(LogLevel::kWarning, "rendezvous",
          "worker {} has {} requests waiting; further ones get 503 and are only counted",
          speaker.slot, kMaxHeldPerWorker);
    }
    return held_.Answer(request, 503, nullptr, out);
  }
  if (call.scope_kind == ScopeKind::kRankAndSize) {
    if (call.verb != KvVerb::kGet) return held_.Answer(request, 405, nullptr, out);
    return RankAndSize(speaker, worker, request, call, out);
  }
  if (call.scope_kind == ScopeKind::kWorkerAddresses) {
    if (call.verb == KvVerb::kPut) return Register(speaker, worker, request, call, body, out);
    return held_.Answer(request, call.verb == KvVerb::kGet ? 404 : 200, nullptr, out);
  }
  Route(speaker, worker, request, call, std::move(body), now, out);
}

void RelayCore::Route(Worker& speaker, int worker, uint64_t request, const KvCall& call,
                      KvValue body, TimePoint now, RelayActions* out) {
  if (speaker.generation < generation()) {
    ++stats_.stale_requests;
    return held_.Answer(request, call.verb == KvVerb::kGet ? 404 : 200, nullptr, out);
  }
  if (speaker.generation > generation()) {
    const bool is_first = call.verb == KvVerb::kPut && call.is_horovod_mesh();
    if (is_first && !std::exchange(speaker.has_arrived, true)) out->arrivals.push_back(worker);
    HeldRequest early;
    early.worker = worker;
    early.kind = HeldRequest::Kind::kEarly;
    early.verb = call.verb;
    early.scope = call.scope;
    early.key = call.key;
    early.body = std::move(body);
    return held_.Hold(request, std::move(early));
  }
  switch (call.verb) {
    case KvVerb::kPut: {
      if (!body) body = std::make_shared<const std::string>();
      const uint64_t stamp = meshes_.OnPut(call, body);
      return PassThrough(KvOp::kPut, worker, request, call, std::move(body), stamp, out);
    }
    case KvVerb::kGet:
      if (meshes_.Get(worker, request, call, now, out)) return;
      return PassThrough(KvOp::kGet, worker, request, call, nullptr, 0, out);
    case KvVerb::kDelete:
      meshes_.Drop(call, out);
      PassThrough(KvOp::kDelete, worker, request, call, nullptr, 0, out);
      return meshes_.FollowAgain(call, now, out);
  }
}

void RelayCore::PassThrough(KvOp op, int worker, uint64_t request, const KvCall& call, KvValue body,
                            uint64_t stamp, RelayActions* out) {
  UpstreamQuestion question;
  question.request = request;
  question.worker = worker;
  question.stamp = stamp;
  if (stamp != 0) {
    question.scope = call.scope;
    question.key = call.key;
    question.value = body;
  }
  const uint64_t id = questions_.Ask(op, worker, call.scope, call.key, std::move(body), out);
  questions_.Expect(id, std::move(question));
  HeldRequest held;
  held.worker = worker;
  held.kind = HeldRequest::Kind::kAsked;
  held.verb = call.verb;
  held.question = id;
  held_.Hold(request, std::move(held));
}

void RelayCore::RankAndSize(const Worker& speaker, int worker, uint64_t request, const KvCall& call,
                            RelayActions* out) {
  if (call.key != speaker.slot) {
    ++stats_.refused_slots;
    return held_.Answer(request, 200, RemovedFromJob(), out);
  }
  auto parked = parked_.find(call.key);
  if (parked == parked_.end()) {
    const uint64_t id =
        questions_.Ask(KvOp::kRankAndSize, worker, call.scope, call.key, nullptr, out);
    UpstreamQuestion question;
    question.kind = UpstreamQuestion::Kind::kRankAndSize;
    question.key = call.key;
    questions_.Expect(id, std::move(question));
    parked = parked_.emplace(std::string(call.key), id).first;
  }
  UpstreamQuestion& question = *questions_.Find(parked->second);
  if (question.request != 0) held_.Answer(question.request, 0, nullptr, out);
  question.request = request;
  question.worker = worker;
  HeldRequest held;
  held.worker = worker;
  held.kind = HeldRequest::Kind::kRankAndSize;
  held.question = parked->second;
  held.key = call.key;
  held_.Hold(request, std::move(held));
}

void RelayCore::Register(Worker& speaker, int worker, uint64_t request, const KvCall& call,
                         const KvValue& body, RelayActions* out) {
  if (call.key != speaker.slot) {
    ++stats_.refused_slots;
    return held_.Answer(request, 403, nullptr, out);
  }
  Result<std::string> pickle = DecodeBase64(body ? ByteView(*body) : ByteView(), kMaxPickleBytes);
  Result<WorkerAddresses> addresses =
      pickle.ok() ? ReadWorkerAddresses(*pickle) : Result<WorkerAddresses>(pickle.status());
  if (!addresses.ok()) {
    const LogLevel level = stats_.refused_requests++ == 0 ? LogLevel::kWarning : LogLevel::kDebug;
    Log(level, "rendezvous", "{:.64}: {}", call.key, addresses.status().message());
    return held_.Answer(request, 400, nullptr, out);
  }
  auto text = std::make_shared<const std::string>(ToPublicText(*addresses));
  questions_.Ask(KvOp::kWorkerAddresses, worker, call.scope, call.key, std::move(text), out);
  speaker.addresses = std::move(addresses).value();
  held_.Answer(request, 200, nullptr, out);
}

// Answers of the store.

void RelayCore::Reset(Generation generation, TimePoint now, RelayActions* out) {
  if (generation <= this->generation()) return;
  const std::vector<uint64_t> ended = held_.Select([](const HeldRequest& held) {
    return held.kind == HeldRequest::Kind::kWaiter || held.kind == HeldRequest::Kind::kAsked;
  });
  for (const uint64_t id : ended) {
    const int status = held_.Find(id)->verb == KvVerb::kGet ? 404 : 200;
    held_.Answer(id, status, nullptr, out);
  }
  meshes_.Clear();
  questions_.Begin(generation);
  ReplayEarly(now, out);
}

void RelayCore::EndMeshes(Generation generation, RelayActions* out) {
  if (generation == this->generation()) meshes_.End(out);
}

void RelayCore::ReplayEarly(TimePoint now, RelayActions* out) {
  const std::vector<uint64_t> early = held_.Select([this](const HeldRequest& held) {
    return held.kind == HeldRequest::Kind::kEarly &&
           workers_.at(held.worker).generation <= generation();
  });
  for (const uint64_t id : early) {
    const HeldRequest held = *held_.Find(id);
    held_.End(id);
    KvCall call;
    call.verb = held.verb;
    call.scope = held.scope;
    call.key = held.key;
    call.scope_kind = KindOfScope(call.scope);
    call.key_kind = KindOfKey(call.key);
    Route(workers_.at(held.worker), held.worker, id, call, held.body, now, out);
  }
}

void RelayCore::OnGone(uint64_t request) {
  const HeldRequest* held = held_.Find(request);
  if (held == nullptr) return;
  // For the launcher, a process that asked for its rank keeps waiting until it is reaped.
  if (UpstreamQuestion* question = questions_.Find(held->question)) question->request = 0;
  held_.End(request);
}

void RelayCore::OnAnswer(const KvAnswer& answer, RelayActions* out) {
  const UpstreamQuestion* open = questions_.Find(answer.id);
  if (open == nullptr) {
    ++stats_.dropped_answers;
    return;
  }
  if (answer.value) stats_.upstream_bytes += answer.value->size();
  if (open->kind == UpstreamQuestion::Kind::kFollow) {
    return meshes_.OnFollowed(answer, open->scope, out);
  }
  const UpstreamQuestion question = questions_.Take(answer.id);
  switch (question.kind) {
    case UpstreamQuestion::Kind::kRankAndSize:
      return OnRankAndSize(question, answer, out);
    case UpstreamQuestion::Kind::kFetch:
      return meshes_.OnFetched(question, answer, out);
    case UpstreamQuestion::Kind::kFollow:
    case UpstreamQuestion::Kind::kPass:
      break;
  }
  if (answer.status == 200) meshes_.OnStored(question, out);
  if (question.request != 0) held_.Answer(question.request, answer.status, answer.value, out);
}

void RelayCore::OnRankAndSize(const UpstreamQuestion& question, const KvAnswer& answer,
                              RelayActions* out) {
  parked_.erase(question.key);
  if (question.request == 0) return;
  KvValue place = answer.status == 200 ? answer.value : nullptr;
  if (!place) place = std::make_shared<const std::string>(kRemovedFromJob);
  const auto worker = workers_.find(question.worker);
  if (worker != workers_.end() && *place != kRemovedFromJob) {
    worker->second.generation = std::max(worker->second.generation, answer.generation);
  }
  held_.Answer(question.request, 200, std::move(place), out);
}

}  // namespace hvdray
