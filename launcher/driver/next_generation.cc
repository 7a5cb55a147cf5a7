// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/next_generation.h"

#include <algorithm>
#include <utility>

namespace hvdray {

void NextGeneration::Prepare(const HostPlan& plan, const HostRegistry& hosts) {
  plan_ = plan;
  ranks_ = RanksOf(plan, hosts);
}

void NextGeneration::DropPlan() {
  plan_.clear();
  ranks_.clear();
}

std::vector<WorkerId> NextGeneration::Abandon(const WorkerRoster& roster) {
  DropPlan();
  std::vector<WorkerId> abandoned = std::exchange(newcomers_, {});
  std::erase_if(abandoned, [&roster](WorkerId worker) {
    const WorkerRoster::Process* process = roster.Living(worker);
    return process == nullptr || process->role != WorkerRoster::Role::kNewcomer;
  });
  return abandoned;
}

std::vector<WorkerId> NextGeneration::Misplaced(const WorkerRoster& roster,
                                                Generation number) const {
  std::vector<WorkerId> misplaced;
  for (const WorkerId worker : newcomers_) {
    const WorkerRoster::Process* process = roster.Living(worker);
    if (process == nullptr || process->is_told_to_end) continue;
    const auto rank = static_cast<size_t>(process->place.rank);
    const bool is_in_place = rank < ranks_.size() && ranks_[rank] == process->place &&
                             process->record.generation == number;
    if (!is_in_place) misplaced.push_back(worker);
  }
  return misplaced;
}

std::vector<NewWorker> NextGeneration::StartMissing(WorkerRoster& roster, Generation number,
                                                    TimePoint now) {
  std::erase_if(newcomers_, [&roster](WorkerId w) { return roster.Living(w) == nullptr; });
  std::vector<NewWorker> started;
  for (const RankInfo& place : ranks_) {
    // The process on that slot has to end first.
    if (roster.On(place.host_index, place.local_rank) != kNoWorker) continue;
    const WorkerId worker = roster.Add(place, number, WorkerRoster::Role::kNewcomer, now);
    newcomers_.push_back(worker);
    started.push_back({worker, place});
  }
  return started;
}

bool NextGeneration::IsMet(const WorkerRoster& roster, Generation number) const {
  const WorkerRoster::Counts& counts = roster.counts();
  if (counts.newcomers != counts.arrived) return false;
  int let_in = 0;
  for (const RankInfo& place : ranks_) {
    const WorkerId worker = roster.On(place.host_index, place.local_rank);
    if (GoesOn(roster, worker)) continue;
    const WorkerRoster::Process* process = roster.Living(worker);
    const bool is_newcomer = process != nullptr && process->role == WorkerRoster::Role::kNewcomer &&
                             process->has_arrived && !process->is_told_to_end &&
                             process->record.generation == number && process->place == place;
    if (!is_newcomer) return false;
    ++let_in;
  }
  return let_in == 0 || (let_in == counts.newcomers && counts.orphans == 0);
}

}  // namespace hvdray
