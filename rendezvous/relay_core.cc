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

size_t SizeOf(const KvValue& value) { return value ? value->size() : 0; }

constexpr size_t kSpareDeadlines = 1024;

KvValue ValueOf(const KvAnswer& answer) {
  return answer.value ? answer.value : std::make_shared<const std::string>();
}

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
  // Other workers of this host still read: they continue with the store's values after this DELETE.
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

// Answers of the store, the cache, and the end of waits.

void RelayCore::Reset(Generation generation, TimePoint now, RelayActions* out) {
  if (generation <= generation_) return;
  generation_ = generation;
  are_meshes_ended_ = false;
  mesh_.Clear();
  std::vector<std::pair<uint64_t, int>> answers;
  for (const auto& [id, held] : requests_) {
    if (held.kind == Request::Kind::kRankAndSize || held.kind == Request::Kind::kEarly) continue;
    answers.emplace_back(id, held.verb == KvVerb::kGet ? 404 : 200);
  }
  std::sort(answers.begin(), answers.end());
  for (const auto& [id, status] : answers) Answer(id, status, nullptr, out);
  scopes_.clear();
  cached_bytes_ = 0;
  deadlines_.clear();
  std::erase_if(questions_, [](const auto& entry) {
    return entry.second.kind != Question::Kind::kRankAndSize;
  });
  ReplayEarly(now, out);
}

void RelayCore::EndMeshes(Generation generation, RelayActions* out) {
  if (generation != generation_ || std::exchange(are_meshes_ended_, true)) return;
  std::vector<uint64_t> waiting;
  for (const auto& [id, held] : requests_) {
    if (held.kind != Request::Kind::kWaiter) continue;
    const ScopeKind kind = KindOfScope(held.scope);
    if (kind == ScopeKind::kMesh || kind == ScopeKind::kProcessSet) waiting.push_back(id);
  }
  std::sort(waiting.begin(), waiting.end());
  for (const uint64_t id : waiting) {
    RemoveWaiter(requests_.at(id));
    Answer(id, 200, nullptr, out);
  }
}

void RelayCore::ReplayEarly(TimePoint now, RelayActions* out) {
  std::vector<uint64_t> early;
  for (const auto& [id, held] : requests_) {
    if (held.kind != Request::Kind::kEarly) continue;
    if (workers_.at(held.worker).generation <= generation_) early.push_back(id);
  }
  std::sort(early.begin(), early.end());
  for (const uint64_t id : early) {
    Request held = std::move(requests_.at(id));
    Forget(id);
    KvCall call;
    call.verb = held.verb;
    call.scope = held.scope;
    call.key = held.key;
    call.scope_kind = KindOfScope(call.scope);
    call.key_kind = KindOfKey(call.key);
    Route(workers_.at(held.worker), held.worker, id, call, std::move(held.body), now, out);
  }
}

void RelayCore::OnGone(uint64_t request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const Request& held = found->second;
  if (held.kind == Request::Kind::kWaiter) RemoveWaiter(held);
  // For the launcher, a process that asked for its rank keeps waiting until it is reaped.
  const auto question = questions_.find(held.question);
  if (question != questions_.end()) question->second.request = 0;
  Forget(request);
}

void RelayCore::OnAnswer(const KvAnswer& answer, RelayActions* out) {
  const auto found = questions_.find(answer.id);
  if (found == questions_.end()) {
    ++stats_.dropped_answers;
    return;
  }
  if (answer.value) stats_.upstream_bytes += answer.value->size();
  if (found->second.kind == Question::Kind::kFollow) {
    return OnFollowed(answer, found->second.scope, out);
  }
  const Question question = std::move(found->second);
  questions_.erase(found);
  if (question.kind == Question::Kind::kRankAndSize) return OnRankAndSize(question, answer, out);

  Scope* scope = question.stamp == 0 ? nullptr : FindScope(question.scope);
  const bool is_current = scope != nullptr && scope->stamp == question.stamp;
  if (question.kind == Question::Kind::kFetch) {
    if (!is_current) return;
    if (answer.status == 200) NoteMesh(question.scope, question.key, ValueOf(answer));
    return OnFetched(*scope, question.key, answer, out);
  }
  if (is_current && answer.status == 200) Arrive(*scope, question.key, question.value, out);
  if (question.request != 0) Answer(question.request, answer.status, answer.value, out);
}

void RelayCore::OnRankAndSize(const Question& question, const KvAnswer& answer, RelayActions* out) {
  parked_.erase(question.key);
  if (question.request == 0) return;
  KvValue place = answer.status == 200 ? answer.value : nullptr;
  if (!place) place = std::make_shared<const std::string>(kRemovedFromJob);
  const auto worker = workers_.find(question.worker);
  if (worker != workers_.end() && *place != kRemovedFromJob) {
    worker->second.generation = std::max(worker->second.generation, answer.generation);
  }
  Answer(question.request, 200, std::move(place), out);
}

void RelayCore::OnTick(TimePoint now, RelayActions* out) {
  while (!deadlines_.empty()) {
    const auto [deadline, request] = deadlines_.front();
    const auto found = requests_.find(request);
    const bool is_waiting =
        found != requests_.end() && found->second.kind == Request::Kind::kWaiter;
    if (is_waiting && deadline > now) return;
    deadlines_.pop_front();
    if (!is_waiting) continue;
    const Scope* scope = FindScope(found->second.scope);
    if (scope != nullptr && !scope->IsKnownAbsent(found->second.key)) {
      found->second.is_overdue = true;
      continue;
    }
    RemoveWaiter(found->second);
    ++stats_.held_too_long;
    Answer(request, 404, nullptr, out);
  }
}

std::optional<TimePoint> RelayCore::NextDeadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.front().first;
}

void RelayCore::SetDeadline(uint64_t request, TimePoint now) {
  if (deadlines_.size() > 2 * requests_.size() + kSpareDeadlines) {
    std::erase_if(deadlines_, [&](const auto& entry) { return !requests_.contains(entry.second); });
  }
  requests_.at(request).is_overdue = false;
  deadlines_.emplace_back(now + options_.kv_hold, request);
}

void RelayCore::Hold(uint64_t request, Request held) {
  Worker& worker = workers_.at(held.worker);
  held.held_index = worker.held.size();
  worker.held.push_back(request);
  requests_.emplace(request, std::move(held));
}

void RelayCore::Forget(uint64_t request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  std::vector<uint64_t>& held = workers_.at(found->second.worker).held;
  const size_t index = found->second.held_index;
  requests_.erase(found);
  const uint64_t last = held.back();
  held.pop_back();
  if (last == request) return;
  held[index] = last;
  requests_.at(last).held_index = index;
}

void RelayCore::RemoveWaiter(const Request& held) {
  Scope* scope = FindScope(held.scope);
  if (scope == nullptr) return;
  const auto waiters = scope->waiters.find(held.key);
  if (waiters == scope->waiters.end()) return;
  std::vector<uint64_t>& list = waiters->second;
  const uint64_t last = list.back();
  list[held.waiter_index] = last;
  requests_.at(last).waiter_index = held.waiter_index;
  list.pop_back();
  if (list.empty()) scope->waiters.erase(waiters);
}

void RelayCore::Answer(uint64_t request, int status, KvValue body, RelayActions* out) {
  out->replies.push_back(RelayReply{request, status, std::move(body)});
  Forget(request);
}

RelayCore::Scope* RelayCore::FindScope(std::string_view name) {
  const auto found = scopes_.find(name);
  return found == scopes_.end() ? nullptr : &found->second;
}

RelayCore::Scope* RelayCore::FindOrMakeScope(std::string_view name) {
  if (Scope* scope = FindScope(name); scope != nullptr) return scope;
  if (scopes_.size() >= kMaxRelayScopes) return nullptr;
  Scope& scope = scopes_[std::string(name)];
  scope.stamp = ++last_stamp_;
  scope.is_barrier = options_.is_barrier_held && name == kBarrierScope;
  return &scope;
}

StringMap<std::vector<uint64_t>> RelayCore::DropScope(std::string_view name, RelayActions* out) {
  StringMap<std::vector<uint64_t>> waiters;
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) return waiters;
  Scope& scope = found->second;
  if (scope.follow != 0) {
    questions_.erase(scope.follow);
    Ask(KvOp::kUnfollow, -1, name, {}, nullptr, out);
  }
  cached_bytes_ -= scope.bytes;
  waiters = std::move(scope.waiters);
  scopes_.erase(found);
  return waiters;
}

void RelayCore::EnsureFollow(Scope& scope, std::string_view name, RelayActions* out) {
  if (scope.follow != 0) return;
  scope.follow = Ask(KvOp::kFollow, -1, name, {}, nullptr, out);
  Question question;
  question.kind = Question::Kind::kFollow;
  question.scope = name;
  questions_.emplace(scope.follow, std::move(question));
}

void RelayCore::Fetch(Scope& scope, std::string_view name, std::string_view key,
                      RelayActions* out) {
  if (scope.fetches.contains(key)) return;
  const uint64_t id = Ask(KvOp::kGet, -1, name, key, nullptr, out);
  scope.fetches.emplace(std::string(key), id);
  Question question;
  question.kind = Question::Kind::kFetch;
  question.stamp = scope.stamp;
  question.scope = name;
  question.key = key;
  questions_.emplace(id, std::move(question));
}

void RelayCore::OnFollowed(const KvAnswer& answer, std::string_view name, RelayActions* out) {
  Scope* scope = FindScope(name);
  if (scope == nullptr || scope->follow != answer.id) return;
  if (answer.status == 200) {
    NoteMesh(name, answer.key, ValueOf(answer));
    return Arrive(*scope, answer.key, ValueOf(answer), out);
  }
  const bool was_held = IsHeld(*scope);
  scope->is_complete = true;
  if (was_held) OpenBarrier(*scope, out);
  std::vector<std::string> keys;
  for (const auto& [key, waiting] : scope->waiters) keys.push_back(key);
  for (const std::string& key : keys) AnswerOverdue(*scope, key, out);
}

void RelayCore::OpenBarrier(Scope& scope, RelayActions* out) {
  std::vector<std::string> keys;
  for (const auto& [key, waiting] : scope.waiters) keys.push_back(key);
  for (const std::string& key : keys) {
    const auto value = scope.values.find(key);
    if (value != scope.values.end()) {
      Arrive(scope, key, KvValue(value->second), out);
    } else if (scope.is_partial) {
      Fetch(scope, kBarrierScope, key, out);
    }
  }
}

void RelayCore::OnFetched(Scope& scope, std::string_view key, const KvAnswer& answer,
                          RelayActions* out) {
  scope.fetches.erase(scope.fetches.find(key));
  if (answer.status == 200) return Arrive(scope, key, ValueOf(answer), out);
  AnswerOverdue(scope, key, out);
}

void RelayCore::AnswerOverdue(Scope& scope, std::string_view key, RelayActions* out) {
  const auto waiters = scope.waiters.find(key);
  if (waiters == scope.waiters.end() || !scope.IsKnownAbsent(key)) return;
  const std::vector<uint64_t> waiting = waiters->second;
  for (const uint64_t request : waiting) {
    const Request& held = requests_.at(request);
    if (!held.is_overdue) continue;
    RemoveWaiter(held);
    ++stats_.held_too_long;
    Answer(request, 404, nullptr, out);
  }
}

void RelayCore::Arrive(Scope& scope, std::string_view key, const KvValue& value,
                       RelayActions* out) {
  if (!Keep(scope, key, value)) scope.is_partial = true;
  if (IsHeld(scope)) return;
  const auto waiters = scope.waiters.find(key);
  if (waiters == scope.waiters.end()) return;
  const std::vector<uint64_t> answered = std::move(waiters->second);
  scope.waiters.erase(waiters);
  for (const uint64_t request : answered) Answer(request, 200, value, out);
}

bool RelayCore::Keep(Scope& scope, std::string_view key, const KvValue& value) {
  const size_t charge = ChargeOf(key, value);
  if (const auto old = scope.values.find(key); old != scope.values.end()) {
    const size_t replaced = ChargeOf(key, old->second);
    scope.bytes -= replaced;
    cached_bytes_ -= replaced;
    scope.values.erase(old);
  }
  if (cached_bytes_ + charge > options_.cache_bytes) return false;
  scope.values.emplace(std::string(key), value);
  scope.bytes += charge;
  cached_bytes_ += charge;
  return true;
}

}  // namespace hvdray
