// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_roster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "launcher/driver/cause.h"
#include "launcher/driver/host_list.h"

namespace hvdray {
namespace {

std::string Deed(const HostChange& change) {
  if (change.workers == 0) return "went on with new workers";
  return fmt::format("{} with {}", change.workers > 0 ? "joined" : "left",
                     std::abs(change.workers));
}

}  // namespace

WorkerId ElasticRoster::Add(const RankInfo& place, Generation generation, Role role,
                            TimePoint now) {
  const auto worker = static_cast<WorkerId>(processes_.size());
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

const ElasticRoster::Process* ElasticRoster::Living(WorkerId worker) const {
  if (worker >= processes_.size() || IsTerminal(processes_[worker].state)) return nullptr;
  return &processes_[worker];
}

ElasticRoster::Process* ElasticRoster::Find(WorkerId worker) {
  return const_cast<Process*>(std::as_const(*this).Living(worker));
}

WorkerId ElasticRoster::On(int host, int local_rank) const {
  const auto row = static_cast<size_t>(host);
  const auto column = static_cast<size_t>(local_rank);
  if (row >= slots_.size() || column >= slots_[row].size()) return kNoWorker;
  return slots_[row][column];
}

std::vector<WorkerId> ElasticRoster::LivingOn(int host) const {
  std::vector<WorkerId> living;
  if (static_cast<size_t>(host) >= slots_.size()) return living;
  for (const WorkerId worker : slots_[static_cast<size_t>(host)]) {
    if (worker != kNoWorker) living.push_back(worker);
  }
  return living;
}

int ElasticRoster::CountLivingOn(int host) const { return static_cast<int>(LivingOn(host).size()); }

bool ElasticRoster::MarkStarted(WorkerId worker, uint32_t pid, TimePoint now) {
  Process* process = Find(worker);
  if (process == nullptr || process->record.started) return false;
  process->record.pid = pid;
  process->record.started = now;
  if (process->state == WorkerState::kStarting) Enter(worker, WorkerState::kRunning, now);
  return true;
}

bool ElasticRoster::MarkArrived(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->has_arrived) return false;
  Tally(*process, -1);
  process->has_arrived = true;
  Tally(*process, +1);
  return true;
}

bool ElasticRoster::MarkMet(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->role != Role::kMember || process->has_met) return false;
  process->has_met = true;
  return true;
}

bool ElasticRoster::MarkConnected(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->role != Role::kMember || process->has_connected) return false;
  process->has_connected = true;
  return true;
}

bool ElasticRoster::MarkParked(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr || process->role != Role::kMember || process->is_parked) return false;
  Tally(*process, -1);
  process->is_parked = true;
  Tally(*process, +1);
  return true;
}

bool ElasticRoster::MarkRegistered(WorkerId worker) {
  Process* process = Find(worker);
  if (process == nullptr) return false;
  process->is_registered = true;
  return true;
}

bool ElasticRoster::MarkToldToEnd(WorkerId worker, TimePoint now) {
  Process* process = Find(worker);
  if (process == nullptr || process->is_told_to_end) return false;
  Tally(*process, -1);
  process->is_told_to_end = true;
  Tally(*process, +1);
  Enter(worker, WorkerState::kStopping, now);
  return true;
}

bool ElasticRoster::MarkEnded(WorkerId worker, const wire::ExitStatus& status, TimePoint now) {
  Process* process = Find(worker);
  if (process == nullptr) return false;
  process->record.status = status;
  process->record.ended = now;
  process->record.was_stopping = process->is_told_to_end;
  const bool has_run = status.stage == wire::ExecStage::kNone;
  End(worker, has_run ? WorkerState::kExited : WorkerState::kFailedToStart, now);
  return true;
}

bool ElasticRoster::MarkErred(WorkerId worker, const LastError& error, std::optional<Duration> age,
                              TimePoint now) {
  if (worker >= processes_.size()) return false;
  WorkerRecord& record = processes_[worker].record;
  record.error = error;
  if (age) record.erred = now - *age;
  return true;
}

bool ElasticRoster::MarkLost(WorkerId worker, TimePoint now) {
  if (Find(worker) == nullptr) return false;
  End(worker, WorkerState::kLost, now);
  return true;
}

void ElasticRoster::Release(WorkerId worker, const RankInfo& place, Generation generation) {
  Process& process = processes_[worker];
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

void ElasticRoster::Remove(WorkerId worker) {
  Process& process = processes_[worker];
  HVDRAY_CHECK(!IsTerminal(process.state));
  Tally(process, -1);
  process.role = Role::kRemoved;
  process.is_parked = false;
  Tally(process, +1);
}

std::vector<WorkerRecord> ElasticRoster::Records(std::span<const WorkerId> workers) const {
  std::vector<WorkerRecord> records;
  records.reserve(workers.size());
  for (const WorkerId worker : workers) records.push_back(processes_[worker].record);
  return records;
}

void ElasticRoster::End(WorkerId worker, WorkerState to, TimePoint now) {
  Process& process = processes_[worker];
  process.record.ended = now;
  Tally(process, -1);
  slots_[static_cast<size_t>(process.host())][static_cast<size_t>(process.place.local_rank)] =
      kNoWorker;
  Enter(worker, to, now);
}

// The only place where a process changes its state.
void ElasticRoster::Enter(WorkerId worker, WorkerState to, TimePoint now) {
  Process& process = processes_[worker];
  const WorkerState from = std::exchange(process.state, to);
  HVDRAY_CHECK(CanFollow(from, to));
  if (on_change_) {
    on_change_({.when = now,
                .generation = process.record.generation,
                .rank = process.record.rank,
                .from = NameOf(from),
                .to = NameOf(to)});
  }
}

void ElasticRoster::Tally(const Process& process, int sign) {
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

void MembershipLog::NoteLeaving(const std::string& host, std::string why) {
  if (reasons_.empty()) first_host_ = host;
  if (!reasons_.contains(host)) reasons_[host] = std::move(why);
}

void MembershipLog::NoteStandstill(TimePoint now) {
  if (!still_since_) still_since_ = now;
}

std::string MembershipLog::FirstReason() const {
  const auto it = reasons_.find(first_host_);
  return it == reasons_.end() ? "" : fmt::format("{}: {}", it->first, it->second);
}

effect::MembershipChanged MembershipLog::Close(effect::MembershipChanged change, TimePoint now) {
  for (HostChange& host : change.changes) {
    const auto it = reasons_.find(host.host);
    if (it == reasons_.end()) continue;
    host.why = it->second;
    reasons_.erase(it);
  }
  for (auto& [host, why] : reasons_) change.changes.push_back({host, 0, std::move(why)});
  change.stood_still = still_since_ ? now - *still_since_ : Duration::zero();
  reasons_.clear();
  still_since_.reset();
  return change;
}

std::string MembershipLine(const effect::MembershipChanged& change) {
  std::vector<std::pair<HostChange, std::vector<std::string>>> groups;
  for (const HostChange& host : change.changes) {
    auto it = groups.begin();
    while (it != groups.end() && (it->first.workers != host.workers || it->first.why != host.why)) {
      ++it;
    }
    if (it == groups.end()) it = groups.insert(it, {host, {}});
    it->second.push_back(host.host);
  }
  std::string text = fmt::format("generation {}: {} worker{}", change.generation, change.size,
                                 change.size == 1 ? "" : "s");
  for (const auto& [deed, hosts] : groups) {
    text += fmt::format("; host{} {} {}{}", hosts.size() == 1 ? "" : "s", CompressHostList(hosts),
                        Deed(deed), hosts.size() == 1 ? "" : " each");
    if (!deed.why.empty()) text += ": " + deed.why;
  }
  if (change.stood_still > Duration::zero()) {
    text += fmt::format("; stood still for {}", ShowDuration(change.stood_still));
  }
  return text;
}

}  // namespace hvdray
