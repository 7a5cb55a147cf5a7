// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/mesh_scopes.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace hvdray {
namespace {

KvValue ValueOf(const KvAnswer& answer) {
  return answer.value ? answer.value : std::make_shared<const std::string>();
}

}  // namespace

void MeshScopes::Clear() {
  scopes_.clear();
  cached_bytes_ = 0;
  is_ended_ = false;
  mesh_.Clear();
}

void MeshScopes::End(RelayActions* out) {
  if (std::exchange(is_ended_, true)) return;
  const std::vector<uint64_t> waiting = held_.Select([](const HeldRequest& held) {
    const ScopeKind kind = KindOfScope(held.scope);
    return held.kind == HeldRequest::Kind::kWaiter &&
           (kind == ScopeKind::kMesh || kind == ScopeKind::kProcessSet);
  });
  for (const uint64_t request : waiting) held_.Answer(request, 200, nullptr, out);
}

uint64_t MeshScopes::OnPut(const KvCall& call, const KvValue& body) {
  if (options_.is_mesh_kept) mesh_.NoteListening(call.scope, call.key, *body);
  if (!call.is_mesh() || call.key_kind == KeyKind::kOther) return 0;
  const Scope* scope = FindOrMake(call.scope);
  return scope == nullptr ? 0 : scope->stamp;
}

bool MeshScopes::Get(int worker, uint64_t request, const KvCall& call, TimePoint now,
                     RelayActions* out) {
  const bool is_number = call.is_mesh() && call.key_kind == KeyKind::kNumber;
  const bool is_rank_name = call.is_horovod_mesh() && call.key_kind == KeyKind::kRankName;
  if (!is_number && !is_rank_name) return false;
  if (is_ended_ && is_number && call.is_horovod_mesh()) {
    held_.Answer(request, 200, nullptr, out);
    return true;
  }
  Scope* scope = is_number ? FindOrMake(call.scope) : Find(call.scope);
  if (scope != nullptr && !(is_number && scope->IsHeld())) {
    const auto value = scope->values.find(call.key);
    if (value != scope->values.end()) {
      ++stats_.served_from_cache;
      held_.Answer(request, 200, value->second, out);
      return true;
    }
  }
  if (!is_number) {
    held_.Answer(request, 404, nullptr, out);
    return true;
  }
  if (scope == nullptr) return false;
  held_.Wait(request, worker, call, now);
  EnsureFollow(*scope, call.scope, out);
  if (scope->is_partial) Fetch(*scope, call.scope, call.key, out);
  return true;
}

void MeshScopes::Drop(const KvCall& call, RelayActions* out) {
  mesh_.NoteDone(call.scope, call.key);
  const auto found = call.is_mesh() ? scopes_.find(call.scope) : scopes_.end();
  if (found == scopes_.end()) return;
  const Scope& scope = found->second;
  if (scope.follow != 0) {
    questions_.Drop(scope.follow);
    questions_.Ask(KvOp::kUnfollow, -1, call.scope, {}, nullptr, out);
  }
  cached_bytes_ -= scope.bytes;
  scopes_.erase(found);
}

void MeshScopes::FollowAgain(const KvCall& call, TimePoint now, RelayActions* out) {
  const std::vector<std::string> keys = held_.AwaitedKeys(call.scope);
  if (keys.empty()) return;
  for (const std::string& key : keys) {
    for (const uint64_t waiting : held_.Waiters(call.scope, key)) held_.WaitAgain(waiting, now);
  }
  EnsureFollow(*FindOrMake(call.scope), call.scope, out);
}

void MeshScopes::OnStored(const UpstreamQuestion& put, RelayActions* out) {
  if (Scope* scope = FindAsked(put)) Arrive(*scope, put.scope, put.key, put.value, out);
}

void MeshScopes::OnFollowed(const KvAnswer& answer, std::string_view name, RelayActions* out) {
  Scope& scope = *Find(name);
  if (answer.status == 200) {
    const KvValue value = ValueOf(answer);
    if (options_.is_mesh_kept) mesh_.Note(name, answer.key, *value);
    return Arrive(scope, name, answer.key, value, out);
  }
  const bool was_held = scope.IsHeld();
  scope.is_complete = true;
  if (was_held) OpenBarrier(scope, out);
  for (const std::string& key : held_.AwaitedKeys(name)) AnswerOverdue(scope, name, key, out);
}

void MeshScopes::OnFetched(const UpstreamQuestion& question, const KvAnswer& answer,
                           RelayActions* out) {
  Scope* scope = FindAsked(question);
  if (scope == nullptr) return;
  scope->fetches.erase(question.key);
  if (answer.status != 200) return AnswerOverdue(*scope, question.scope, question.key, out);
  const KvValue value = ValueOf(answer);
  if (options_.is_mesh_kept) mesh_.Note(question.scope, question.key, *value);
  Arrive(*scope, question.scope, question.key, value, out);
}

void MeshScopes::OnTick(TimePoint now, RelayActions* out) {
  while (const std::optional<uint64_t> request = held_.TakeOverdue(now)) {
    const HeldRequest& held = *held_.Find(*request);
    const Scope* scope = Find(held.scope);
    if (scope != nullptr && !scope->IsKnownAbsent(held.key)) continue;
    ++stats_.held_too_long;
    held_.Answer(*request, 404, nullptr, out);
  }
}

MeshScopes::Scope* MeshScopes::Find(std::string_view name) {
  const auto found = scopes_.find(name);
  return found == scopes_.end() ? nullptr : &found->second;
}

MeshScopes::Scope* MeshScopes::FindAsked(const UpstreamQuestion& question) {
  Scope* scope = question.stamp == 0 ? nullptr : Find(question.scope);
  return scope != nullptr && scope->stamp == question.stamp ? scope : nullptr;
}

MeshScopes::Scope* MeshScopes::FindOrMake(std::string_view name) {
  if (Scope* scope = Find(name); scope != nullptr) return scope;
  if (scopes_.size() >= kMaxRelayScopes) return nullptr;
  Scope& scope = scopes_[std::string(name)];
  scope.stamp = ++last_stamp_;
  scope.is_barrier = options_.is_barrier_held && name == kBarrierScope;
  return &scope;
}

void MeshScopes::EnsureFollow(Scope& scope, std::string_view name, RelayActions* out) {
  if (scope.follow != 0) return;
  scope.follow = questions_.Ask(KvOp::kFollow, -1, name, {}, nullptr, out);
  UpstreamQuestion question;
  question.kind = UpstreamQuestion::Kind::kFollow;
  question.scope = name;
  questions_.Expect(scope.follow, std::move(question));
}

void MeshScopes::Fetch(Scope& scope, std::string_view name, std::string_view key,
                       RelayActions* out) {
  if (scope.fetches.contains(key)) return;
  const uint64_t id = questions_.Ask(KvOp::kGet, -1, name, key, nullptr, out);
  scope.fetches.emplace(std::string(key), id);
  UpstreamQuestion question;
  question.kind = UpstreamQuestion::Kind::kFetch;
  question.stamp = scope.stamp;
  question.scope = name;
  question.key = key;
  questions_.Expect(id, std::move(question));
}

void MeshScopes::OpenBarrier(Scope& scope, RelayActions* out) {
  for (const std::string& key : held_.AwaitedKeys(kBarrierScope)) {
    const auto value = scope.values.find(key);
    if (value != scope.values.end()) {
      Arrive(scope, kBarrierScope, key, KvValue(value->second), out);
    } else if (scope.is_partial) {
      Fetch(scope, kBarrierScope, key, out);
    }
  }
}

void MeshScopes::Arrive(Scope& scope, std::string_view name, std::string_view key,
                        const KvValue& value, RelayActions* out) {
  if (!Keep(scope, key, value)) scope.is_partial = true;
  if (scope.IsHeld()) return;
  for (const uint64_t request : held_.Waiters(name, key)) held_.Answer(request, 200, value, out);
}

bool MeshScopes::Keep(Scope& scope, std::string_view key, const KvValue& value) {
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

void MeshScopes::AnswerOverdue(const Scope& scope, std::string_view name, std::string_view key,
                               RelayActions* out) {
  if (!scope.IsKnownAbsent(key)) return;
  for (const uint64_t request : held_.Waiters(name, key)) {
    if (!held_.Find(request)->is_overdue) continue;
    ++stats_.held_too_long;
    held_.Answer(request, 404, nullptr, out);
  }
}

}  // namespace hvdray
