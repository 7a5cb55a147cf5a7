// Requests of workers: which are answered here, which wait, which go upstream.
#include "rendezvous/relay_core.h"

#include <algorithm>
#include <utility>

#include "base/base64.h"
#include "base/log.h"
#include "rendezvous/pickle_machine.h"

namespace hvdray {
namespace {

const KvValue& RemovedFromJob() {
  static const KvValue text = std::make_shared<const std::string>(kRemovedFromJob);
  return text;
}

size_t SizeOf(const KvValue& value) { return value ? value->size() : 0; }

}  // namespace

void RelayCore::OpenWorker(int worker, std::string slot, Generation generation) {
  CloseWorker(worker);
  if (generation_ == 0) generation_ = generation;
  Worker& opened = workers_[worker];
  opened.slot = std::move(slot);
  opened.generation = generation;
}

void RelayCore::CloseWorker(int worker) {
  const auto closed = workers_.find(worker);
  if (closed == workers_.end()) return;
  for (const uint64_t request : HeldBy(worker)) OnGone(request);
  if (const auto parked = parked_.find(closed->second.slot); parked != parked_.end()) {
    questions_.erase(parked->second);
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
    return requests_.at(request).kind == Request::Kind::kRankAndSize;
  });
}

std::vector<uint64_t> RelayCore::HeldBy(int worker) const {
  const auto found = workers_.find(worker);
  return found == workers_.end() ? std::vector<uint64_t>() : found->second.held;
}

void RelayCore::OnRequest(int worker, uint64_t request, const KvCall& call, KvValue body,
                          TimePoint now, RelayActions* out) {
  ++stats_.requests;
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return Answer(request, 0, nullptr, out);
  Worker& speaker = found->second;
  if (speaker.held.size() >= kMaxHeldPerWorker) {
    if (stats_.over_limit++ == 0) {
      Log(LogLevel::kWarning, "rendezvous",
          "worker {} has {} requests waiting; further ones get 503 and are only counted",
          speaker.slot, speaker.held.size());
    }
    return Answer(request, 503, nullptr, out);
  }
  if (call.scope_kind == ScopeKind::kRankAndSize) {
    if (call.verb != KvVerb::kGet) return Answer(request, 405, nullptr, out);
    return RankAndSize(speaker, worker, request, call, out);
  }
  if (call.scope_kind == ScopeKind::kWorkerAddresses) {
    if (call.verb == KvVerb::kPut) return Register(speaker, worker, request, call, body, out);
    return Answer(request, call.verb == KvVerb::kGet ? 404 : 200, nullptr, out);
  }
  Route(speaker, worker, request, call, std::move(body), now, out);
}

void RelayCore::Route(Worker& speaker, int worker, uint64_t request, const KvCall& call,
                      KvValue body, TimePoint now, RelayActions* out) {
  if (speaker.generation < generation_) return AnswerStale(request, call.verb, out);
  if (speaker.generation > generation_) {
    const bool is_first = call.verb == KvVerb::kPut && call.is_horovod_mesh();
    if (is_first && !std::exchange(speaker.has_arrived, true)) out->arrivals.push_back(worker);
    Request early;
    early.worker = worker;
    early.kind = Request::Kind::kEarly;
    early.verb = call.verb;
    early.scope = call.scope;
    early.key = call.key;
    early.body = std::move(body);
    return Hold(request, std::move(early));
  }
  switch (call.verb) {
    case KvVerb::kPut:
      return Put(worker, request, call, std::move(body), out);
    case KvVerb::kGet:
      return Get(worker, request, call, now, out);
    case KvVerb::kDelete:
      return Delete(worker, request, call, now, out);
  }
}

void RelayCore::Put(int worker, uint64_t request, const KvCall& call, KvValue body,
                    RelayActions* out) {
  if (!body) body = std::make_shared<const std::string>();
  if (options_.is_mesh_kept) mesh_.NoteListening(call.scope, call.key, *body);
  uint64_t stamp = 0;
  if (call.is_mesh() && call.key_kind != KeyKind::kOther) {
    const Scope* scope = FindOrMakeScope(call.scope);
    if (scope != nullptr) stamp = scope->stamp;
  }
  PassThrough(KvOp::kPut, worker, request, call, std::move(body), stamp, out);
}

void RelayCore::Get(int worker, uint64_t request, const KvCall& call, TimePoint now,
                    RelayActions* out) {
  const bool is_number = call.is_mesh() && call.key_kind == KeyKind::kNumber;
  const bool is_rank_name = call.is_horovod_mesh() && call.key_kind == KeyKind::kRankName;
  if (are_meshes_ended_ && is_number && call.is_horovod_mesh()) {
    return Answer(request, 200, nullptr, out);
  }
  if (!is_number && !is_rank_name) {
    return PassThrough(KvOp::kGet, worker, request, call, nullptr, 0, out);
  }
  Scope* scope = is_number ? FindOrMakeScope(call.scope) : FindScope(call.scope);
  if (scope != nullptr && !(is_number && IsHeld(*scope))) {
    const auto value = scope->values.find(call.key);
    if (value != scope->values.end()) {
      ++stats_.served_from_cache;
      return Answer(request, 200, value->second, out);
    }
  }
  if (!is_number) return Answer(request, 404, nullptr, out);
  if (scope == nullptr) return PassThrough(KvOp::kGet, worker, request, call, nullptr, 0, out);
  WaitForKey(*scope, worker, request, call, now, out);
}

void RelayCore::Delete(int worker, uint64_t request, const KvCall& call, TimePoint now,
                       RelayActions* out) {
  mesh_.NoteDone(call.scope, call.key);
  StringMap<std::vector<uint64_t>> waiters;
  if (call.is_mesh()) waiters = DropScope(call.scope, out);
  PassThrough(KvOp::kDelete, worker, request, call, nullptr, 0, out);
  if (waiters.empty()) return;
  // Others of this host still read: they go on with what the store has behind this DELETE.
  Scope& scope = *FindOrMakeScope(call.scope);
  scope.waiters = std::move(waiters);
  for (const auto& [key, requests] : scope.waiters) {
    for (const uint64_t waiting : requests) SetDeadline(waiting, now);
  }
  EnsureFollow(scope, call.scope, out);
}

void RelayCore::PassThrough(KvOp op, int worker, uint64_t request, const KvCall& call, KvValue body,
                            uint64_t stamp, RelayActions* out) {
  Question question;
  question.request = request;
  question.worker = worker;
  question.stamp = stamp;
  if (stamp != 0) {
    question.scope = call.scope;
    question.key = call.key;
    question.value = body;
  }
  const uint64_t id = Ask(op, worker, call.scope, call.key, std::move(body), out);
  questions_.emplace(id, std::move(question));
  Request held;
  held.worker = worker;
  held.kind = Request::Kind::kAsked;
  held.verb = call.verb;
  held.question = id;
  Hold(request, std::move(held));
}

void RelayCore::WaitForKey(Scope& scope, int worker, uint64_t request, const KvCall& call,
                           TimePoint now, RelayActions* out) {
  auto waiters = scope.waiters.find(call.key);
  if (waiters == scope.waiters.end()) {
    waiters = scope.waiters.emplace(std::string(call.key), std::vector<uint64_t>()).first;
  }
  Request held;
  held.worker = worker;
  held.kind = Request::Kind::kWaiter;
  held.verb = KvVerb::kGet;
  held.waiter_index = waiters->second.size();
  held.scope = call.scope;
  held.key = call.key;
  waiters->second.push_back(request);
  Hold(request, std::move(held));
  SetDeadline(request, now);
  EnsureFollow(scope, call.scope, out);
  if (scope.is_partial) Fetch(scope, call.scope, call.key, out);
}

void RelayCore::RankAndSize(const Worker& speaker, int worker, uint64_t request, const KvCall& call,
                            RelayActions* out) {
  if (call.key != speaker.slot) {
    ++stats_.refused_slots;
    return Answer(request, 200, RemovedFromJob(), out);
  }
  auto parked = parked_.find(call.key);
  if (parked == parked_.end()) {
    const uint64_t id = Ask(KvOp::kRankAndSize, worker, call.scope, call.key, nullptr, out);
    Question question;
    question.kind = Question::Kind::kRankAndSize;
    question.key = call.key;
    questions_.emplace(id, std::move(question));
    parked = parked_.emplace(std::string(call.key), id).first;
  }
  Question& question = questions_.at(parked->second);
  if (question.request != 0) Answer(question.request, 0, nullptr, out);
  question.request = request;
  question.worker = worker;
  Request held;
  held.worker = worker;
  held.kind = Request::Kind::kRankAndSize;
  held.question = parked->second;
  held.key = call.key;
  Hold(request, std::move(held));
}

void RelayCore::Register(Worker& speaker, int worker, uint64_t request, const KvCall& call,
                         const KvValue& body, RelayActions* out) {
  if (call.key != speaker.slot) {
    ++stats_.refused_slots;
    return Answer(request, 403, nullptr, out);
  }
  Result<std::string> pickle = DecodeBase64(body ? ByteView(*body) : ByteView(), kMaxPickleBytes);
  Result<WorkerAddresses> addresses =
      pickle.ok() ? ReadWorkerAddresses(*pickle) : Result<WorkerAddresses>(pickle.status());
  if (!addresses.ok()) {
    const LogLevel level = stats_.refused_requests++ == 0 ? LogLevel::kWarning : LogLevel::kDebug;
    Log(level, "rendezvous", "{:.64}: {}", call.key, addresses.status().message());
    return Answer(request, 400, nullptr, out);
  }
  auto text = std::make_shared<const std::string>(ToPublicText(*addresses));
  Ask(KvOp::kWorkerAddresses, worker, call.scope, call.key, std::move(text), out);
  speaker.addresses = std::move(addresses).value();
  Answer(request, 200, nullptr, out);
}

void RelayCore::NoteMesh(std::string_view scope, std::string_view key, const KvValue& value) {
  if (options_.is_mesh_kept) mesh_.Note(scope, key, *value);
}

void RelayCore::AnswerStale(uint64_t request, KvVerb verb, RelayActions* out) {
  ++stats_.stale_requests;
  Answer(request, verb == KvVerb::kGet ? 404 : 200, nullptr, out);
}

uint64_t RelayCore::Ask(KvOp op, int worker, std::string_view scope, std::string_view key,
                        KvValue value, RelayActions* out) {
  ++stats_.upstream_questions;
  stats_.upstream_bytes += SizeOf(value);
  KvQuestion question;
  question.id = ++last_question_;
  question.generation = generation_;
  question.op = op;
  question.rank = worker;
  question.scope = scope;
  question.key = key;
  question.value = std::move(value);
  out->questions.push_back(std::move(question));
  return last_question_;
}

}  // namespace hvdray
