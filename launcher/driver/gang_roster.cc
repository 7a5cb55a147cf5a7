// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/gang_roster.h"

#include <algorithm>
#include <utility>

namespace hvdray {

GangRoster::GangRoster(std::vector<RankInfo> ranks, StateChangeFn on_change)
    : ranks_(std::move(ranks)), on_change_(std::move(on_change)) {
  HVDRAY_CHECK(!ranks_.empty());
  workers_.resize(ranks_.size());
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankInfo& info = ranks_[i];
    HVDRAY_CHECK(info.rank == static_cast<int>(i));
    Host& host = hosts_[info.host_index];
    host.name = info.host;
    host.ranks.push_back(info.rank);
    workers_[i].host = info.host_index;
    workers_[i].record = {.rank = info.rank, .host = info.host, .local_rank = info.local_rank};
  }
}

void GangRoster::BeginGeneration(Generation generation, TimePoint now) {
  generation_ = generation;
  living_ = static_cast<int>(workers_.size());
  starting_ = 0;
  for (Worker& worker : workers_) {
    worker.state = WorkerState::kPending;
    worker.record = {.rank = worker.record.rank,
                     .host = worker.record.host,
                     .local_rank = worker.record.local_rank,
                     .generation = generation};
    Enter(&worker, WorkerState::kStarting, now);
  }
  for (auto& [index, host] : hosts_) host.is_stopped = false;
}

bool GangRoster::MarkReady(int host, uint16_t offered_port) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end() || it->second.is_ready || it->second.is_lost) return false;
  it->second.is_ready = true;
  it->second.offered_port = offered_port;
  return true;
}

bool GangRoster::MarkLost(int host, const Status& why, TimePoint now) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end() || it->second.is_lost) return false;
  it->second.is_lost = true;
  it->second.is_stopped = true;
  it->second.why_lost = why;
  LoseWorkersOf(it->second, now);
  return true;
}

bool GangRoster::MarkStarted(const event::WorkerStarted& fact, TimePoint now) {
  Worker* worker = FindLiving(fact.generation, fact.rank);
  if (worker == nullptr || worker->record.started.has_value()) return false;
  worker->record.pid = fact.pid;
  worker->record.started = now;
  // A worker told to stop before its start was reported stays kStopping.
  if (worker->state == WorkerState::kStarting) Enter(worker, WorkerState::kRunning, now);
  return true;
}

bool GangRoster::MarkExited(const event::WorkerExited& fact, TimePoint now) {
  Worker* worker = FindLiving(fact.generation, fact.rank);
  if (worker == nullptr) return false;
  worker->record.status = fact.status;
  worker->record.ended = now;
  worker->record.was_stopping = fact.was_stopping;
  const bool has_run = fact.status.stage == wire::ExecStage::kNone;
  Enter(worker, has_run ? WorkerState::kExited : WorkerState::kFailedToStart, now);
  return true;
}

bool GangRoster::MarkErred(const event::WorkerErred& fact, TimePoint now) {
  const bool is_known = fact.generation == generation_ && fact.rank >= 0 &&
                        fact.rank < static_cast<int>(workers_.size());
  if (!is_known) return false;
  Worker& worker = workers_[static_cast<size_t>(fact.rank)];
  if (worker.state == WorkerState::kPending) return false;
  worker.record.error = fact.error;
  if (fact.age) worker.record.erred = now - *fact.age;
  Recount(&worker);
  return true;
}

bool GangRoster::MarkStopped(const event::GenerationStopped& fact, TimePoint now) {
  const auto it = hosts_.find(fact.host);
  if (it == hosts_.end() || fact.generation != generation_ || it->second.is_stopped) return false;
  it->second.is_stopped = true;
  it->second.offered_port = fact.offered_port;
  LoseWorkersOf(it->second, now);
  return true;
}

bool GangRoster::HasLiving(int host) const {
  const auto it = hosts_.find(host);
  return it != hosts_.end() &&
         std::any_of(it->second.ranks.begin(), it->second.ranks.end(),
                     [this](int rank) { return !IsTerminal(workers_[rank].state); });
}

std::vector<int> GangRoster::MarkStopping(TimePoint now) {
  std::vector<int> told;
  for (const auto& [index, host] : hosts_) {
    if (host.is_stopped) continue;
    told.push_back(index);
    for (const int rank : host.ranks) {
      Worker& worker = workers_[rank];
      if (IsTerminal(worker.state) || worker.state == WorkerState::kStopping) continue;
      Enter(&worker, WorkerState::kStopping, now);
    }
  }
  return told;
}

std::vector<std::string> GangRoster::Names(bool (*is_wanted)(const Host&)) const {
  std::vector<std::string> names;
  for (const auto& [index, host] : hosts_) {
    if (is_wanted(host)) names.push_back(host.name);
  }
  return names;
}

std::vector<std::string> GangRoster::NamesOfStarting() const {
  std::vector<std::string> names;
  for (const auto& [index, host] : hosts_) {
    const bool is_starting = std::any_of(host.ranks.begin(), host.ranks.end(), [this](int rank) {
      return workers_[rank].state == WorkerState::kStarting;
    });
    if (is_starting) names.push_back(host.name);
  }
  return names;
}

int GangRoster::Count(bool (*is_wanted)(const Host&)) const {
  return static_cast<int>(std::count_if(
      hosts_.begin(), hosts_.end(), [&](const auto& entry) { return is_wanted(entry.second); }));
}

std::vector<WorkerRecord> GangRoster::Records() const {
  std::vector<WorkerRecord> records;
  records.reserve(workers_.size());
  for (const Worker& worker : workers_) records.push_back(worker.record);
  return records;
}

// The only place where a worker changes its state.
void GangRoster::Enter(Worker* worker, WorkerState to, TimePoint now) {
  const WorkerState from = std::exchange(worker->state, to);
  HVDRAY_CHECK(CanFollow(from, to));
  if (from == WorkerState::kStarting) --starting_;
  if (to == WorkerState::kStarting) ++starting_;
  if (IsTerminal(to)) --living_;
  Recount(worker);
  if (on_change_) {
    on_change_({.when = now,
                .generation = generation_,
                .rank = worker->record.rank,
                .from = NameOf(from),
                .to = NameOf(to)});
  }
}

void GangRoster::Recount(Worker* worker) {
  const auto count = [this](Worker::Part part, int by) {
    if (part == Worker::Part::kOwnFailure) own_failures_ += by;
    if (part == Worker::Part::kErring) erring_ += by;
  };
  const WorkerRecord& record = worker->record;
  Worker::Part part = Worker::Part::kNone;
  if (worker->state == WorkerState::kStarting || worker->state == WorkerState::kRunning) {
    if (record.error.is_own()) part = Worker::Part::kErring;
  } else if (record.status && !record.status->is_success() && !record.was_stopping) {
    if (record.error.peer_words.empty()) part = Worker::Part::kOwnFailure;
  }
  count(std::exchange(worker->part, part), -1);
  count(part, 1);
}

GangRoster::Worker* GangRoster::FindLiving(Generation generation, int rank) {
  if (generation != generation_ || rank < 0 || rank >= static_cast<int>(workers_.size())) {
    return nullptr;
  }
  Worker& worker = workers_[rank];
  const bool is_living = worker.state != WorkerState::kPending && !IsTerminal(worker.state);
  return is_living ? &worker : nullptr;
}

void GangRoster::LoseWorkersOf(const Host& host, TimePoint now) {
  for (const int rank : host.ranks) {
    Worker& worker = workers_[rank];
    if (worker.state == WorkerState::kPending || IsTerminal(worker.state)) continue;
    worker.record.ended = now;
    Enter(&worker, WorkerState::kLost, now);
  }
}

}  // namespace hvdray
