// SPDX-License-Identifier: Apache-2.0
// The store of rendezvous values. Every table that a peer can make grow is bounded here.
#include "rendezvous/kv_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/log.h"
#include "rendezvous/horovod_protocol.h"
#include "rendezvous/kv_upstream.h"

namespace hvdray {
namespace {

struct Follower {
  int relay;
  uint64_t id;
};

const KvValue& EmptyValue() {
  static const KvValue empty = std::make_shared<const std::string>();
  return empty;
}

}  // namespace

struct KvStore::Scope {
  bool is_known = false;
  int known_size = 0;
  StringMap<Entry> values;
  size_t numeric_count = 0;
  bool is_held = false;      // See KvAssignment::is_barrier_held.
  StringMap<int> held_from;  // Numeric key -> relay, while the init barrier is closed.
  std::unordered_set<uint32_t> finished;
  std::vector<Follower> followers;
};

void KvAssignment::Add(std::string_view host, int rank, int size, int local_rank, int local_size,
                       int cross_rank, int cross_size) {
  scope_sizes.insert_or_assign("global", size);
  scope_sizes.insert_or_assign(fmt::format("local_{}", host), local_size);
  scope_sizes.insert_or_assign(fmt::format("cross_{}", local_rank), cross_size);
  rank_and_size.insert_or_assign(
      JoinSlot(host, local_rank),
      fmt::format("{},{},{},{},{},{}", rank, size, local_rank, local_size, cross_rank, cross_size));
}

KvStore::KvStore(Owner& owner, size_t limit_bytes) : owner_(owner), limit_bytes_(limit_bytes) {}

KvStore::~KvStore() = default;

void KvStore::Reset(KvAssignment assignment) {
  scopes_.clear();
  stored_bytes_ = 0;
  assignment_ = std::move(assignment);
  std::erase_if(worker_addresses_, [&](const auto& entry) {
    return !assignment_.rank_and_size.contains(entry.first);
  });
  for (const auto& [slot, text] : worker_addresses_) stored_bytes_ += ChargeOf(slot, text);
}

void KvStore::Ask(int relay, const KvQuestion& question) {
  if (question.op == KvOp::kRankAndSize) return RankAndSize(relay, question);
  if (question.op == KvOp::kWorkerAddresses) return RegisterWorker(relay, question);
  if (question.generation != assignment_.generation) return AnswerStale(relay, question);
  switch (question.op) {
    case KvOp::kPut:
      return Put(relay, question);
    case KvOp::kGet:
      return Get(relay, question);
    case KvOp::kDelete:
      return Delete(relay, question);
    case KvOp::kFollow:
      return Follow(relay, question);
    case KvOp::kUnfollow:
      return Unfollow(relay, question);
    case KvOp::kRankAndSize:
    case KvOp::kWorkerAddresses:
      return;
  }
}

void KvStore::DropRelay(int relay) {
  for (auto& [name, scope] : scopes_) {
    std::erase_if(scope->followers, [&](const Follower& f) { return f.relay == relay; });
  }
}

KvValue KvStore::WorkerAddressesOf(std::string_view slot) const {
  const auto found = worker_addresses_.find(slot);
  return found == worker_addresses_.end() ? nullptr : found->second;
}

void KvStore::AnswerStale(int relay, const KvQuestion& question) {
  ++stale_questions_;
  if (question.op == KvOp::kUnfollow) return;
  const bool asks = question.op == KvOp::kGet || question.op == KvOp::kFollow;
  Reply(relay, question.id, asks ? 404 : 200);
}

void KvStore::Put(int relay, const KvQuestion& question) {
  const KvValue& value = question.value ? question.value : EmptyValue();
  KvScopeStats& stats = StatsOf(question.scope);
  ++stats.puts;
  stats.bytes_in += value->size();
  size_t replaced = 0;
  if (const auto scope = scopes_.find(question.scope); scope != scopes_.end()) {
    const auto old = scope->second->values.find(question.key);
    if (old != scope->second->values.end()) replaced = ChargeOf(old->first, old->second.value);
  }
  int status = 200;
  if (!Fits(question, replaced, &status)) return Reply(relay, question.id, status);

  Scope& scope = ScopeOf(question.scope);
  const bool is_numeric = KindOfKey(question.key) == KeyKind::kNumber;
  stored_bytes_ = stored_bytes_ - replaced + ChargeOf(question.key, value);
  const Entry entry{value, question.inflated_bytes};
  const bool is_new = scope.values.insert_or_assign(question.key, entry).second;
  if (is_new && is_numeric) ++scope.numeric_count;
  Reply(relay, question.id, 200);
  if (!is_numeric) return;
  if (scope.is_held) {
    scope.held_from.insert_or_assign(question.key, relay);
    return;
  }
  for (const Follower& follower : scope.followers) {
    if (follower.relay == relay) continue;  // It has the value and only needs the 200.
    stats.bytes_out += value->size();
    Reply(follower.relay, follower.id, 200, question.key, entry);
  }
}

void KvStore::Get(int relay, const KvQuestion& question) {
  KvScopeStats& stats = StatsOf(question.scope);
  ++stats.gets;
  const auto scope = scopes_.find(question.scope);
  if (scope == scopes_.end()) return Reply(relay, question.id, 404);
  const auto value = scope->second->values.find(question.key);
  const bool is_held = scope->second->is_held && KindOfKey(question.key) == KeyKind::kNumber;
  if (value == scope->second->values.end() || is_held) return Reply(relay, question.id, 404);
  stats.bytes_out += value->second.value->size();
  Reply(relay, question.id, 200, question.key, value->second);
}

void KvStore::Delete(int relay, const KvQuestion& question) {
  ++StatsOf(question.scope).deletes;
  if (assignment_.scope_sizes.contains(question.scope)) {
    Finish(ScopeOf(question.scope), question.key);
  } else if (const auto scope = scopes_.find(question.scope); scope != scopes_.end()) {
    EraseAdHoc(*scope->second, question.key);
    ForgetIfEmpty(question.scope);
  }
  Reply(relay, question.id, 200);
}

void KvStore::Finish(Scope& scope, std::string_view key) {
  if (KindOfKey(key) != KeyKind::kNumber) return;
  const uint32_t member = *NumberOfKey(key);
  if (scope.known_size <= 0 || member >= static_cast<uint32_t>(scope.known_size)) return;
  scope.finished.insert(member);
  if (scope.finished.size() < static_cast<size_t>(scope.known_size)) return;
  for (const auto& [name, entry] : scope.values) stored_bytes_ -= ChargeOf(name, entry.value);
  scope.values.clear();
  scope.numeric_count = 0;
  scope.finished.clear();
  scope.held_from.clear();
}

void KvStore::EraseAdHoc(Scope& scope, std::string_view key) {
  const auto entry = scope.values.find(key);
  if (entry == scope.values.end()) return;
  stored_bytes_ -= ChargeOf(entry->first, entry->second.value);
  scope.values.erase(entry);
  if (KindOfKey(key) != KeyKind::kNumber || --scope.numeric_count > 0) return;
  std::erase_if(scope.values, [&](const auto& left) {
    if (KindOfKey(left.first) != KeyKind::kRankName) return false;
    stored_bytes_ -= ChargeOf(left.first, left.second.value);
    return true;
  });
}

void KvStore::Follow(int relay, const KvQuestion& question) {
  Unfollow(relay, question);
  Scope& scope = ScopeOf(question.scope);
  KvScopeStats& stats = StatsOf(question.scope);
  ++stats.follows;
  scope.followers.push_back({relay, question.id});
  if (scope.is_held) return;
  for (const auto& [key, entry] : scope.values) {
    if (KindOfKey(key) != KeyKind::kNumber) continue;
    stats.bytes_out += entry.value->size();
    Reply(relay, question.id, 200, key, entry);
  }
  Reply(relay, question.id, 404);
}

void KvStore::OpenBarrier() {
  assignment_.is_barrier_held = false;
  const auto found = scopes_.find(kBarrierScope);
  if (found == scopes_.end() || !std::exchange(found->second->is_held, false)) return;
  Scope& scope = *found->second;
  KvScopeStats& stats = StatsOf(kBarrierScope);
  for (const Follower& follower : scope.followers) {
    for (const auto& [key, from] : scope.held_from) {
      if (from == follower.relay) continue;
      const Entry& entry = scope.values.find(key)->second;
      stats.bytes_out += entry.value->size();
      Reply(follower.relay, follower.id, 200, key, entry);
    }
    Reply(follower.relay, follower.id, 404);
  }
  scope.held_from.clear();
}

void KvStore::Unfollow(int relay, const KvQuestion& question) {
  const auto scope = scopes_.find(question.scope);
  if (scope == scopes_.end()) return;
  std::erase_if(scope->second->followers, [&](const Follower& f) { return f.relay == relay; });
  ForgetIfEmpty(question.scope);
}

void KvStore::RankAndSize(int relay, const KvQuestion& question) {
  ++StatsOf("rank_and_size").gets;
  const auto place = assignment_.rank_and_size.find(question.key);
  std::string text(place == assignment_.rank_and_size.end() ? kRemovedFromJob
                                                            : std::string_view(place->second));
  Reply(relay, question.id, 200, question.key,
        {std::make_shared<const std::string>(std::move(text))});
}

void KvStore::RegisterWorker(int relay, const KvQuestion& question) {
  const KvValue& value = question.value ? question.value : EmptyValue();
  KvScopeStats& stats = StatsOf("worker_addresses");
  ++stats.puts;
  stats.bytes_in += value->size();
  int status = 200;
  if (assignment_.rank_and_size.contains(question.key)) {
    const auto old = worker_addresses_.find(question.key);
    const size_t replaced = old == worker_addresses_.end() ? 0 : ChargeOf(old->first, old->second);
    if (Fits(question, replaced, &status)) {
      stored_bytes_ = stored_bytes_ - replaced + ChargeOf(question.key, value);
      worker_addresses_.insert_or_assign(question.key, value);
    }
  }
  Reply(relay, question.id, status);
}

KvStore::Scope& KvStore::ScopeOf(std::string_view name) {
  const auto found = scopes_.find(name);
  if (found != scopes_.end()) return *found->second;
  auto scope = std::make_unique<Scope>();
  const auto known = assignment_.scope_sizes.find(name);
  if (known != assignment_.scope_sizes.end()) {
    scope->is_known = true;
    scope->is_held = assignment_.is_barrier_held && name == kBarrierScope;
    scope->known_size = known->second;
  } else {
    stored_bytes_ += kKvScopeOverhead + name.size();
  }
  return *scopes_.emplace(std::string(name), std::move(scope)).first->second;
}

void KvStore::ForgetIfEmpty(std::string_view name) {
  const auto found = scopes_.find(name);
  if (found == scopes_.end()) return;
  const Scope& scope = *found->second;
  if (scope.is_known || !scope.values.empty() || !scope.followers.empty()) return;
  stored_bytes_ -= kKvScopeOverhead + name.size();
  scopes_.erase(found);
}

KvScopeStats& KvStore::StatsOf(std::string_view name) {
  const auto found = stats_.find(name);
  if (found != stats_.end()) return found->second;
  const bool has_room = stats_.size() < kMaxKvStatsRows;
  return stats_[has_room ? std::string(name) : std::string("(others)")];
}

bool KvStore::Fits(const KvQuestion& question, size_t replaced_bytes, int* status) {
  const size_t size_bytes = question.value ? question.value->size() : 0;
  const size_t charge = kKvEntryOverhead + question.key.size() + size_bytes;
  if (std::max<size_t>(size_bytes, question.inflated_bytes) > kMaxKvValueBytes) {
    *status = 413;
  } else if (stored_bytes_ - replaced_bytes + charge > limit_bytes_) {
    *status = 503;
  } else {
    return true;
  }
  if (refused_questions_++ == 0) {
    Log(LogLevel::kWarning, "rendezvous",
        "refused {} B for {:.64}/{:.64} with status {}: limit {} B per value, {} B in total, {} B "
        "held; further refusals are only counted",
        size_bytes, question.scope, question.key, *status, kMaxKvValueBytes, limit_bytes_,
        stored_bytes_);
  }
  return false;
}

void KvStore::Reply(int relay, uint64_t id, int status, std::string key, Entry entry) {
  owner_.Answer(relay, KvAnswer{id, assignment_.generation, status, std::move(key),
                                std::move(entry.value), entry.inflated_bytes});
}

}  // namespace hvdray
