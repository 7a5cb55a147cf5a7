// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/held_requests.h"

#include <algorithm>

namespace hvdray {
namespace {

constexpr size_t kSpareDeadlines = 1024;

}  // namespace

void HeldRequests::Hold(uint64_t request, HeldRequest held) {
  by_worker_[held.worker].push_back(request);
  requests_.emplace(request, Held{std::move(held)});
}

void HeldRequests::Wait(uint64_t request, int worker, const KvCall& call, TimePoint now) {
  HeldRequest held;
  held.worker = worker;
  held.scope = call.scope;
  held.key = call.key;
  List& list = waiters_[held.scope][held.key];
  Hold(request, std::move(held));
  Held& waiter = requests_.at(request);
  waiter.waiters = &list;
  waiter.waiter_index = list.size();
  list.push_back(request);
  WaitAgain(request, now);
}

void HeldRequests::WaitAgain(uint64_t request, TimePoint now) {
  if (deadlines_.size() > 2 * requests_.size() + kSpareDeadlines) {
    std::erase_if(deadlines_, [&](const auto& entry) { return !requests_.contains(entry.second); });
  }
  requests_.at(request).request.is_overdue = false;
  deadlines_.emplace_back(now + hold_, request);
}

void HeldRequests::End(uint64_t request) {
  const auto found = requests_.find(request);
  if (found == requests_.end()) return;
  const Held held = std::move(found->second);
  requests_.erase(found);
  const auto of_worker = by_worker_.find(held.request.worker);
  std::erase(of_worker->second, request);
  if (of_worker->second.empty()) by_worker_.erase(of_worker);
  if (held.waiters == nullptr) return;
  List& list = *held.waiters;
  const uint64_t last = list.back();
  list[held.waiter_index] = last;
  list.pop_back();
  if (last != request) requests_.at(last).waiter_index = held.waiter_index;
  if (!list.empty()) return;
  const auto scope = waiters_.find(held.request.scope);
  scope->second.erase(held.request.key);
  if (scope->second.empty()) waiters_.erase(scope);
  if (waiters_.empty()) deadlines_.clear();
}

void HeldRequests::Answer(uint64_t request, int status, KvValue body, RelayActions* out) {
  out->replies.push_back(RelayReply{request, status, std::move(body)});
  End(request);
}

const HeldRequest* HeldRequests::Find(uint64_t request) const {
  const auto found = requests_.find(request);
  return found == requests_.end() ? nullptr : &found->second.request;
}

std::vector<uint64_t> HeldRequests::Of(int worker) const {
  const auto found = by_worker_.find(worker);
  return found == by_worker_.end() ? List() : found->second;
}

size_t HeldRequests::CountOf(int worker) const {
  const auto found = by_worker_.find(worker);
  return found == by_worker_.end() ? 0 : found->second.size();
}

std::vector<uint64_t> HeldRequests::Select(
    const std::function<bool(const HeldRequest&)>& accepts) const {
  List selected;
  for (const auto& [id, held] : requests_) {
    if (accepts(held.request)) selected.push_back(id);
  }
  std::sort(selected.begin(), selected.end());
  return selected;
}

std::vector<uint64_t> HeldRequests::Waiters(std::string_view scope, std::string_view key) const {
  const auto keys = waiters_.find(scope);
  if (keys == waiters_.end()) return {};
  const auto list = keys->second.find(key);
  return list == keys->second.end() ? List() : list->second;
}

std::vector<std::string> HeldRequests::AwaitedKeys(std::string_view scope) const {
  std::vector<std::string> keys;
  const auto found = waiters_.find(scope);
  if (found == waiters_.end()) return keys;
  for (const auto& [key, list] : found->second) keys.push_back(key);
  return keys;
}

std::optional<uint64_t> HeldRequests::TakeOverdue(TimePoint now) {
  while (!deadlines_.empty()) {
    const auto [deadline, request] = deadlines_.front();
    const auto found = requests_.find(request);
    const bool is_waiting = found != requests_.end() && found->second.waiters != nullptr;
    if (is_waiting && deadline > now) return std::nullopt;
    deadlines_.pop_front();
    if (!is_waiting) continue;
    found->second.request.is_overdue = true;
    return request;
  }
  return std::nullopt;
}

std::optional<TimePoint> HeldRequests::NextDeadline() const {
  if (deadlines_.empty()) return std::nullopt;
  return deadlines_.front().first;
}

}  // namespace hvdray
