// The other half of RelayCore: answers of the store, the cache, and how waiting ends.
#include <algorithm>
#include <utility>

#include "rendezvous/kv_charge.h"
#include "rendezvous/relay_core.h"

namespace hvdray {
namespace {

constexpr size_t kSpareDeadlines = 1024;

KvValue ValueOf(const KvAnswer& answer) {
  return answer.value ? answer.value : std::make_shared<const std::string>();
}

// Before the launcher has spoken, a 404 would be a guess, and a wrong one is fatal: Horovod reads a
// value twice and takes the second 404 for an empty value. It would also bring the same question
// again, for ever where the launcher is slower than the hold.
bool IsKnownAbsent(const RelayScope& scope, std::string_view key) {
  return scope.is_complete && !scope.fetches.contains(key);
}

}  // namespace

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
  // A process that asked for its place goes on waiting in the launcher's eyes until it is reaped.
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
    if (scope != nullptr && !IsKnownAbsent(*scope, found->second.key)) {
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
  scope.is_meeting = options_.is_meeting_held && name == kMeetingScope;
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
  if (was_held) OpenMeeting(*scope, out);
  std::vector<std::string> keys;
  for (const auto& [key, waiting] : scope->waiters) keys.push_back(key);
  for (const std::string& key : keys) AnswerOverdue(*scope, key, out);
}

void RelayCore::OpenMeeting(Scope& scope, RelayActions* out) {
  std::vector<std::string> keys;
  for (const auto& [key, waiting] : scope.waiters) keys.push_back(key);
  for (const std::string& key : keys) {
    const auto value = scope.values.find(key);
    if (value != scope.values.end()) {
      Arrive(scope, key, KvValue(value->second), out);
    } else if (scope.is_partial) {
      Fetch(scope, kMeetingScope, key, out);
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
  if (waiters == scope.waiters.end() || !IsKnownAbsent(scope, key)) return;
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
