// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/worker_roster.h"

#include <utility>

namespace hvdray {

WorkerId WorkerRoster::Add(const RankInfo& place, Generation generation, Role role, TimePoint now) {
  const auto worker = first_ + static_cast<WorkerId>(processes_.size());
  const auto host = static_cast<size_t>(place.host_index);
  const auto local_rank = static_cast<size_t>(place.local_rank);
  if (slots_.size() <= host) slots_.resize(host + 1);
  if (slots_[host].size() <= local_rank) slots_[host].resize(local_rank + 1, kNoWorker);
  HVDRAY_CHECK(slots_[host][local_rank] == kNoWorker);
  slots_[host][local_rank] = worker;
  Process process;
  process.record = {.rank = place.rank,
                    .host = place.host,
                    .local_rank = place.local_rank,
                    .generation = generation};
  process.place = place;
  process.role = role;
  processes_.push_back(std::move(process));
  Tally(processes_.back(), +1);
  Enter(worker, WorkerState::kStarting, now);
  return worker;
}

const WorkerRoster::Process* WorkerRoster::Living(WorkerId worker) const {
  if (!IsKnown(worker) || IsTerminal(Of(worker).state)) return nullptr;
  return &Of(worker);
}

WorkerRoster::Process* WorkerRoster::Find(WorkerId worker) {
  return const_cast<Process*>(std::as_const(*this).Living(worker));
}

WorkerId WorkerRoster::On(int host, int local_rank) const {
  const auto row = static_cast<size_t>(host);
  const auto column = static_cast<size_t>(local_rank);
  if (row >= slots_.size() || column >= slots_[row].size()) return kNoWorker;
  return slots_[row][column];
}

std::vector<WorkerId> WorkerRoster::LivingOn(int host) const {
  std::vector<WorkerId> living;
  if (static_cast<size_t>(host) >= slots_.size()) return living;
  for (const WorkerId worker : slots_[static_cast<size_t>(host)]) {
    if (worker != kNoWorker) living.push_back(worker);
  }
  return living;
}

int WorkerRoster::CountLivingOn(int host) const { return static_cast<int>(LivingOn(host).size()); }

bool WorkerRoster::MarkStarted(WorkerId worker, uint32_t pid, TimePoint now) {
  Process* process = Find(worker);
  if (process == nullptr || process->record.started) return false;
  process->record.pid = pid;
  process->record.started = now;
  if (process->state == WorkerState::kStarting) Enter(worker, WorkerState::kRunning, now);
  return true;
}

bool WorkerRoster::MarkArrived(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->has_arrived) return false;
  Tally(*process, -1);
  process->has_arrived = true;
  Tally(*process, +1);
  return true;
}

bool WorkerRoster::MarkMet(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->role != Role::kMember || process->has_met) return false;
  process->has_met = true;
  return true;
}

bool WorkerRoster::MarkConnected(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->role != Role::kMember || process->has_connected) return false;
  process->has_connected = true;
  return true;
}

bool WorkerRoster::MarkParked(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->role != Role::kMember || process->is_parked) return false;
  Tally(*process, -1);
  process->is_parked = true;
  Tally(*process, +1);
  return true;
}

bool WorkerRoster::MarkRegistered(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr) return false;
  process->is_registered = true;
  return true;
}

bool WorkerRoster::MarkToldToEnd(WorkerId worker, Duration grace, TimePoint now) {
  Process* process = Find(worker);
  if (process == nullptr) return false;
  const bool is_less = process->is_told_to_end && grace < process->record.grace;
  if (is_less || !process->is_told_to_end) process->record.grace = grace;
  if (process->is_told_to_end) return false;
  Tally(*process, -1);
  process->is_told_to_end = true;
  Tally(*process, +1);
  Enter(worker, WorkerState::kStopping, now);
  return true;
}

bool WorkerRoster::MarkEnded(WorkerId worker, const wire::ExitStatus& status, bool was_stopping,
                             TimePoint now) {
  Process* process = Find(worker);
  if (process == nullptr) return false;
  process->record.status = status;
  process->record.ended = now;
  process->record.was_stopping = was_stopping;
  const bool has_run = status.stage == wire::ExecStage::kNone;
  End(worker, has_run ? WorkerState::kExited : WorkerState::kFailedToStart, now);
  return true;
}

bool WorkerRoster::MarkErred(WorkerId worker, const LastError& error, std::optional<Duration> age,
                             TimePoint now) {
  if (!IsKnown(worker)) return false;
  WorkerRecord& record = At(worker).record;
  record.error = error;
  if (age) record.erred = now - *age;
  Recount(At(worker));
  return true;
}

bool WorkerRoster::MarkLost(WorkerId worker, TimePoint now) {
  if (Find(worker) == nullptr) return false;
  End(worker, WorkerState::kLost, now);
  return true;
}

void WorkerRoster::SetLimit(WorkerId worker, TimePoint limit) {
  At(worker).limit = limit;
  limits_.emplace(limit, worker);
}

std::optional<TimePoint> WorkerRoster::NextLimit() const {
  if (limits_.empty()) return std::nullopt;
  return limits_.begin()->first;
}

WorkerId WorkerRoster::TakeDue(TimePoint now) {
  while (!limits_.empty() && limits_.begin()->first <= now) {
    const auto [limit, worker] = *limits_.begin();
    limits_.erase(limits_.begin());
    const Process* process = Living(worker);
    if (process != nullptr && process->limit == limit) return worker;
  }
  return kNoWorker;
}

void WorkerRoster::Release(WorkerId worker, const RankInfo& place, Generation generation) {
  Process& process = At(worker);
  HVDRAY_CHECK(!IsTerminal(process.state));
  Tally(process, -1);
  process.role = Role::kMember;
  process.place = place;
  process.record.rank = place.rank;
  process.record.generation = generation;
  process.has_arrived = false;
  process.has_met = false;
  process.has_connected = false;
  process.is_parked = false;
  Tally(process, +1);
}

void WorkerRoster::Remove(WorkerId worker) {
  Process& process = At(worker);
  HVDRAY_CHECK(!IsTerminal(process.state));
  Tally(process, -1);
  process.role = Role::kRemoved;
  process.is_parked = false;
  Tally(process, +1);
}

std::vector<WorkerRecord> WorkerRoster::Records(std::span<const WorkerId> workers) const {
  std::vector<WorkerRecord> records;
  records.reserve(workers.size());
  for (const WorkerId worker : workers) records.push_back(Of(worker).record);
  return records;
}

void WorkerRoster::End(WorkerId worker, WorkerState to, TimePoint now) {
  Process& process = At(worker);
  process.record.ended = now;
  Tally(process, -1);
  slots_[static_cast<size_t>(process.host())][static_cast<size_t>(process.place.local_rank)] =
      kNoWorker;
  Enter(worker, to, now);
}

// The only place where a process changes its state.
void WorkerRoster::Enter(WorkerId worker, WorkerState to, TimePoint now) {
  Process& process = At(worker);
  const WorkerState from = std::exchange(process.state, to);
  HVDRAY_CHECK(CanFollow(from, to));
  if (from == WorkerState::kStarting) --counts_.starting;
  if (to == WorkerState::kStarting) ++counts_.starting;
  Recount(process);
  if (on_change_) {
    on_change_({.when = now,
                .generation = process.record.generation,
                .rank = process.record.rank,
                .from = Name(from),
                .to = Name(to)});
  }
}

void WorkerRoster::Recount(Process& process) {
  const auto count = [this](Process::Part part, int by) {
    if (part == Process::Part::kOwnFailure) own_failures_ += by;
    if (part == Process::Part::kErring) erring_ += by;
  };
  const WorkerRecord& record = process.record;
  Process::Part part = Process::Part::kNone;
  if (process.state == WorkerState::kStarting || process.state == WorkerState::kRunning) {
    if (record.error.is_own()) part = Process::Part::kErring;
  } else if (record.status && !record.status->is_success() && !record.was_stopping) {
    if (record.error.peer_words.empty()) part = Process::Part::kOwnFailure;
  }
  count(std::exchange(process.part, part), -1);
  count(part, 1);
}

void WorkerRoster::Tally(const Process& process, int sign) {
  counts_.living += sign;
  switch (process.role) {
    case Role::kMember:
      counts_.members += sign;
      if (!process.is_told_to_end) counts_.staying += sign;
      (process.is_parked ? counts_.parked : counts_.unsettled) += sign;
      break;
    case Role::kRemoved:
      counts_.unsettled += sign;
      break;
    case Role::kNewcomer:
      (process.is_told_to_end ? counts_.orphans : counts_.newcomers) += sign;
      if (process.has_arrived && !process.is_told_to_end) counts_.arrived += sign;
      break;
  }
}

}  // namespace hvdray
