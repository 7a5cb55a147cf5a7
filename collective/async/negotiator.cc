// SPDX-License-Identifier: Apache-2.0
#include "collective/async/negotiator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"
#include "collective/async/agreement.h"

namespace hvdray {
namespace {

// A rank whose names never repeat begins its numbers again after so many.
constexpr size_t kMostKnown = 4096;

Status Broken(int rank, std::string_view what) {
  return {ErrorCode::kAborted, fmt::format("rank {}: {}", rank, what)};
}

// In a round.
int PlaceOf(RequestKind kind) {
  return kind == RequestKind::kBarrier ? 1 : kind > RequestKind::kBarrier ? 2 : 0;
}

}  // namespace

// A name of a process set, as long as a number or an operation has it.
struct Negotiator::Slot {
  std::shared_ptr<ProcessSet> set;
  std::vector<std::shared_ptr<const Entry>> requests;  // by member; empty when none waits
  size_t count = 0;                                    // of those that are there
  TimePoint since{};
  const OwnRequest* own = nullptr;  // this rank's
  Status error;
  bool is_checked = false;
  std::vector<uint64_t> agreed;  // serials of the requests that agreed last
};

struct Negotiator::Entry {
  Request request;
  std::shared_ptr<Slot> slot;
  uint64_t serial = 0;  // no other request has it
};

struct Negotiator::ProcessSet {
  int id = 0;
  std::vector<int> ranks;
  std::vector<int> positions;  // by global rank; -1: not a member
  std::unordered_map<std::string, std::weak_ptr<Slot>> slots;
  std::vector<std::shared_ptr<const Entry>> joined;  // by member; empty: has not joined
  size_t joined_count = 0;
  const OwnRequest* own_join = nullptr;
  int last_joined = -1;
};

Negotiator::Negotiator(int rank, int size, NegotiationSettings settings)
    : rank_(rank), size_(size), settings_(settings), known_(static_cast<size_t>(size)) {
  std::vector<int> all(static_cast<size_t>(size));
  for (int i = 0; i < size; ++i) all[static_cast<size_t>(i)] = i;
  Insert(0, std::move(all));
}

// Slots, their requests and process sets know each other.
Negotiator::~Negotiator() {
  for (const std::shared_ptr<Slot>& slot : pending_) slot->requests.clear();
  for (auto& [id, set] : sets_) set->joined.clear();
}

void Negotiator::Insert(int id, std::vector<int> ranks) {
  auto set = std::make_shared<ProcessSet>();
  set->id = id;
  set->positions.assign(static_cast<size_t>(size_), -1);
  for (size_t i = 0; i < ranks.size(); ++i) {
    set->positions[static_cast<size_t>(ranks[i])] = static_cast<int>(i);
  }
  set->joined.resize(ranks.size());
  set->ranks = std::move(ranks);
  sets_[id] = std::move(set);
}

std::string Negotiator::MessageOf(std::span<OwnRequest* const> requests, RoundMessage message) {
  own_fresh_.clear();
  own_known_.assign(known_[static_cast<size_t>(rank_)].size(), nullptr);
  for (OwnRequest* request : requests) {
    if (request->era != era_) {
      const auto number = own_numbers_.find(request->encoded);
      if (number == own_numbers_.end()) {
        message.fresh.push_back(request->encoded);
        own_fresh_.push_back(request);
        continue;
      }
      request->number = number->second;
      request->era = era_;
    }
    own_known_[request->number] = request;
    const size_t word = request->number / 64;
    if (message.known.size() <= word) message.known.resize(word + 1);
    message.known[word] |= uint64_t{1} << (request->number % 64);
  }
  return Encode(message);
}

Result<Plan> Negotiator::Round(std::span<const std::string_view> messages, TimePoint now) {
  Plan plan;
  for (int rank = 0; rank < size_; ++rank) {
    HVDRAY_ASSIGN_OR_RETURN(const RoundMessage message,
                            DecodeMessage(messages[static_cast<size_t>(rank)]));
    HVDRAY_RETURN_IF_ERROR(Take(rank, message, now));
    if (!plan.end.ok()) continue;
    if (message.is_leaving) {
      plan.has_left = message.leave == Leave::kInOrder;
      plan.end = Status(ErrorCode::kAborted, message.why.empty()
                                                 ? fmt::format("rank {} has shut down", rank)
                                                 : fmt::format("rank {} {}, and has shut down",
                                                               rank, ShownText(message.why, 300)));
    } else if (message.has_stalled) {
      plan.end = Status(ErrorCode::kDeadlineExceeded, LongestWait());
    }
  }
  std::vector<PlannedOperation> ready = std::exchange(refused_, {});
  CollectReady(ready);
  // Who has come through a barrier may use again all names that came before it; a set goes last.
  const auto is_before = [](const PlannedOperation& one, const PlannedOperation& other) {
    return PlaceOf(one.request->kind) < PlaceOf(other.request->kind);
  };
  if (!std::is_sorted(ready.begin(), ready.end(), is_before)) {
    std::stable_sort(ready.begin(), ready.end(), is_before);
  }
  FinishJoins(ready);
  plan.batches = Fuse(std::move(ready), settings_);
  return plan;
}

Status Negotiator::Take(int rank, const RoundMessage& message, TimePoint now) {
  // By number first: new ones may begin the numbers again.
  for (size_t word = 0; word < message.known.size(); ++word) {
    for (uint64_t bits = message.known[word]; bits != 0; bits &= bits - 1) {
      const size_t number = word * 64 + static_cast<size_t>(std::countr_zero(bits));
      const auto& known = known_[static_cast<size_t>(rank)];
      if (number >= known.size()) return Broken(rank, "unknown number of a request");
      const OwnRequest* own =
          rank == rank_ && number < own_known_.size() ? own_known_[number] : nullptr;
      HVDRAY_RETURN_IF_ERROR(Put(rank, known[number], own, now));
    }
  }
  for (size_t i = 0; i < message.fresh.size(); ++i) {
    OwnRequest* own = rank == rank_ && i < own_fresh_.size() ? own_fresh_[i] : nullptr;
    HVDRAY_ASSIGN_OR_RETURN(std::shared_ptr<const Entry> entry, Learn(rank, message.fresh[i], own));
    if (entry != nullptr) HVDRAY_RETURN_IF_ERROR(Put(rank, std::move(entry), own, now));
  }
  return {};
}

// nullptr: its process set is gone, and the request refused.
Result<std::shared_ptr<const Negotiator::Entry>> Negotiator::Learn(int rank, std::string_view bytes,
                                                                   OwnRequest* own) {
  HVDRAY_ASSIGN_OR_RETURN(Request request, DecodeRequest(bytes));
  auto entry = std::make_shared<Entry>();
  entry->request = std::move(request);
  entry->serial = next_serial_++;
  const auto set = sets_.find(entry->request.process_set);
  if (set == sets_.end()) {
    Refuse(rank, entry, own);
    return std::shared_ptr<const Entry>();
  }
  std::weak_ptr<Slot>& place = set->second->slots[entry->request.name];
  entry->slot = place.lock();
  if (entry->slot == nullptr) {
    entry->slot = std::make_shared<Slot>();
    entry->slot->set = set->second;
    place = entry->slot;
  }
  auto& known = known_[static_cast<size_t>(rank)];
  if (known.size() == kMostKnown) {
    known.clear();
    if (rank == rank_) {
      own_numbers_.clear();
      ++era_;
    }
    for (auto& [id, each] : sets_) {
      std::erase_if(each->slots, [](const auto& slot) { return slot.second.expired(); });
    }
  }
  if (own != nullptr) {
    own->number = static_cast<uint32_t>(known.size());
    own->era = era_;
    own_numbers_[own->encoded] = own->number;
  }
  known.push_back(entry);
  return std::shared_ptr<const Entry>(std::move(entry));
}

void Negotiator::Refuse(int rank, const std::shared_ptr<const Entry>& entry,
                        const OwnRequest* own) {
  PlannedOperation operation;
  operation.own = own;
  for (int other = 0; other < size_; ++other) {
    if (other != rank) operation.absent.push_back(other);
  }
  operation.error =
      Status(ErrorCode::kUsage,
             fmt::format("{} '{}': process set {} has been removed", Name(entry->request.kind),
                         entry->request.name, entry->request.process_set));
  operation.request = std::shared_ptr<const Request>(entry, &entry->request);
  refused_.push_back(std::move(operation));
}

Status Negotiator::Put(int rank, std::shared_ptr<const Entry> entry, const OwnRequest* own,
                       TimePoint now) {
  const auto found = sets_.find(entry->request.process_set);
  if (found == sets_.end()) {
    Refuse(rank, entry, own);
    return {};
  }
  ProcessSet& set = *found->second;
  const int position = set.positions[static_cast<size_t>(rank)];
  if (position < 0) return Broken(rank, "is not a member of its request's process set");
  const auto member = static_cast<size_t>(position);
  if (on_arrival_) on_arrival_(rank, entry->request);
  if (entry->request.kind == RequestKind::kJoin) {
    if (set.joined[member] != nullptr) return Broken(rank, "has joined twice");
    set.joined[member] = std::move(entry);
    ++set.joined_count;
    if (rank == rank_) set.own_join = own;
    set.last_joined = rank;
    return {};
  }
  const std::shared_ptr<Slot>& slot = entry->slot;
  if (slot->count == 0) {
    slot->requests.resize(set.ranks.size());
    slot->since = now;
    pending_.push_back(slot);
  }
  if (slot->requests[member] != nullptr) return Broken(rank, "has sent a name twice");
  ++slot->count;
  if (rank == rank_) slot->own = own;
  slot->is_checked = false;
  slot->requests[member] = std::move(entry);
  return {};
}

bool Negotiator::IsReady(const Slot& slot) const {
  const ProcessSet& set = *slot.set;
  if (slot.count + set.joined_count < set.ranks.size()) return false;
  if (slot.count == set.ranks.size()) return true;
  for (size_t i = 0; i < set.ranks.size(); ++i) {
    if (slot.requests[i] == nullptr && set.joined[i] == nullptr) return false;
  }
  return true;
}

// Whether the requests agree; once for the same ones.
void Negotiator::Check(Slot& slot) {
  if (std::exchange(slot.is_checked, true)) return;
  const bool is_complete = slot.count == slot.requests.size();
  const auto is_agreed = [](const std::shared_ptr<const Entry>& entry, uint64_t serial) {
    return entry->serial == serial;
  };
  if (is_complete && std::equal(slot.requests.begin(), slot.requests.end(), slot.agreed.begin(),
                                slot.agreed.end(), is_agreed)) {
    return;
  }
  std::vector<const Request*> requests;
  std::vector<const Request*> joined;
  for (size_t i = 0; i < slot.requests.size(); ++i) {
    const Entry* entry = slot.requests[i].get();
    const Entry* join = slot.set->joined[i].get();
    requests.push_back(entry == nullptr ? nullptr : &entry->request);
    joined.push_back(join == nullptr ? nullptr : &join->request);
  }
  slot.error = CheckAgreement(requests, joined, slot.set->ranks);
  slot.agreed.clear();
  if (!is_complete || !slot.error.ok()) return;
  for (const auto& entry : slot.requests) slot.agreed.push_back(entry->serial);
}

// Those of a group fail together, on all ranks, whichever ranks have called them a group.
void Negotiator::FailWithGroups() {
  std::map<std::pair<int, uint64_t>, Status> failed;
  for (bool is_new = true; is_new;) {
    is_new = false;
    for (const std::shared_ptr<Slot>& slot : pending_) {
      for (const auto& entry : slot->requests) {
        if (entry == nullptr || entry->request.group_size == 0) continue;
        const std::pair<int, uint64_t> group{slot->set->id, entry->request.group};
        if (!slot->error.ok()) {
          is_new |= failed.emplace(group, slot->error).second;
        } else if (const auto found = failed.find(group); found != failed.end()) {
          slot->error = found->second;
          is_new = true;
        }
      }
    }
  }
}

void Negotiator::CollectReady(std::vector<PlannedOperation>& ready) {
  std::vector<bool> is_ready;
  std::map<std::pair<int, uint64_t>, size_t> complete;  // of each group
  const auto first = [](const Slot& slot) -> const Request& {
    const auto& requests = slot.requests;
    return (*std::find_if(requests.begin(), requests.end(),
                          [](const auto& request) { return request != nullptr; }))
        ->request;
  };
  bool has_failed = false;
  ready.reserve(ready.size() + pending_.size());
  for (const std::shared_ptr<Slot>& slot : pending_) {
    is_ready.push_back(IsReady(*slot));
    if (!is_ready.back()) continue;
    Check(*slot);
    has_failed |= !slot->error.ok();
    const Request& request = first(*slot);
    if (request.group_size > 0) ++complete[{slot->set->id, request.group}];
  }
  if (has_failed) FailWithGroups();
  std::vector<std::shared_ptr<Slot>> waiting;
  for (size_t i = 0; i < pending_.size(); ++i) {
    std::shared_ptr<Slot>& slot = pending_[i];
    const Request& request = first(*slot);
    const bool is_alone = request.group_size == 0;
    const bool is_removed = !sets_.contains(slot->set->id);  // by this round
    if (is_removed || (slot->error.ok() &&
                       (!is_ready[i] || (!is_alone && complete[{slot->set->id, request.group}] <
                                                          request.group_size)))) {
      waiting.push_back(std::move(slot));
    } else {
      ready.push_back(Finish(*slot));
    }
  }
  pending_ = std::move(waiting);
  // What waits in a set that has just been removed.
  std::erase_if(pending_, [&](const std::shared_ptr<Slot>& slot) {
    if (sets_.contains(slot->set->id)) return false;
    slot->error = Status(ErrorCode::kUsage, fmt::format("'{}': process set {} has been removed",
                                                        first(*slot).name, slot->set->id));
    ready.push_back(Finish(*slot));
    return true;
  });
}

PlannedOperation Negotiator::Finish(Slot& slot) {
  PlannedOperation operation;
  operation.own = std::exchange(slot.own, nullptr);
  operation.error = std::exchange(slot.error, {});
  const auto& requests = slot.requests;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (requests[i] == nullptr) {
      operation.absent.push_back(slot.set->ranks[i]);
    } else if (operation.request == nullptr) {
      operation.request = std::shared_ptr<const Request>(requests[i], &requests[i]->request);
    }
  }
  if (operation.error.ok()) {
    const RequestKind kind = operation.request->kind;
    for (const auto& entry : requests) {
      const Request* request = entry == nullptr ? nullptr : &entry->request;
      if (kind == RequestKind::kAllGather) operation.rows.push_back(request->shape[0]);
      if (kind == RequestKind::kAllToAll) AppendSplits(*request, requests.size(), operation.rows);
    }
    if (kind == RequestKind::kAddProcessSet) AddSet(operation);
    if (kind == RequestKind::kRemoveProcessSet) RemoveSet(operation);
  }
  slot.requests.assign(requests.size(), nullptr);
  slot.count = 0;
  return operation;
}

void Negotiator::AddSet(PlannedOperation& operation) {
  const std::vector<int> ranks(operation.request->numbers.begin(),
                               operation.request->numbers.end());
  for (const auto& [id, set] : sets_) {
    if (set->ranks != ranks) continue;
    operation.error = Status(
        ErrorCode::kUsage,
        fmt::format("process set {} has the ranks [{}] already", id, fmt::join(ranks, ", ")));
    return;
  }
  operation.process_set = next_set_++;
  Insert(operation.process_set, ranks);
}

void Negotiator::RemoveSet(PlannedOperation& operation) {
  const auto id = static_cast<int>(operation.request->numbers[0]);
  operation.process_set = id;
  const auto set = sets_.find(id);
  if (set == sets_.end()) {
    operation.error = Status(ErrorCode::kUsage, fmt::format("no process set {}", id));
    return;
  }
  // Ranks wait in it for others to join.
  for (size_t i = 0; i < set->second->joined.size(); ++i) {
    const auto& entry = set->second->joined[i];
    const int rank = set->second->ranks[i];
    if (entry != nullptr) Refuse(rank, entry, rank == rank_ ? set->second->own_join : nullptr);
  }
  set->second->joined.assign(set->second->ranks.size(), nullptr);
  set->second->joined_count = 0;
  sets_.erase(set);
}

void Negotiator::FinishJoins(std::vector<PlannedOperation>& ready) {
  for (PlannedOperation& operation : refused_) ready.push_back(std::move(operation));
  refused_.clear();
  for (auto& [id, set] : sets_) {
    if (set->joined_count < set->ranks.size()) continue;
    PlannedOperation operation;
    operation.own = std::exchange(set->own_join, nullptr);
    operation.last_rank = set->last_joined;
    operation.sequence = set->joined[0]->request.sequence;
    for (const auto& entry : set->joined) {
      operation.sequence = std::max(operation.sequence, entry->request.sequence);
    }
    operation.request = std::shared_ptr<const Request>(set->joined[0], &set->joined[0]->request);
    ready.push_back(std::move(operation));
    set->joined.assign(set->ranks.size(), nullptr);
    set->joined_count = 0;
  }
}

// For the error that ends all.
std::string Negotiator::LongestWait() const {
  const std::vector<WaitingOperation> waiting = Waiting();
  if (waiting.empty() || waiting.front().missing.empty()) return "operations waited too long";
  const WaitingOperation& first = waiting.front();
  return fmt::format("{} waited too long for {} {}, which never submitted it", first.name,
                     first.missing.size() == 1 ? "rank" : "ranks", fmt::join(first.missing, ", "));
}

std::vector<WaitingOperation> Negotiator::Waiting() const {
  std::vector<WaitingOperation> waiting;
  for (const std::shared_ptr<Slot>& slot : pending_) {
    WaitingOperation operation{{}, slot->set->id, slot->since, {}};
    for (size_t i = 0; i < slot->requests.size(); ++i) {
      const Entry* entry = slot->requests[i].get();
      if (entry != nullptr) {
        operation.name = entry->request.name;
      } else if (slot->set->joined[i] == nullptr) {
        operation.missing.push_back(slot->set->ranks[i]);
      }
    }
    waiting.push_back(std::move(operation));
  }
  return waiting;
}

TimePoint Negotiator::OldestSince() const {
  return pending_.empty() ? TimePoint::max() : pending_.front()->since;
}

std::map<int, std::vector<int>> Negotiator::ProcessSets() const {
  std::map<int, std::vector<int>> sets;
  for (const auto& [id, set] : sets_) sets[id] = set->ranks;
  return sets;
}

}  // namespace hvdray
