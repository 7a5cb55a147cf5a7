// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_invariants.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvdray {

void ElasticInvariants::Check(const ElasticEvent& event, TimePoint now,
                              std::span<const ElasticEffect> effects,
                              std::optional<TimePoint> next_deadline) {
  if (has_finished_) {
    if (!effects.empty() || next_deadline) Broken("something comes after Finish");
    return;
  }
  std::visit([this](const auto& e) { Learn(e); }, event);
  for (const ElasticEffect& effect : effects) {
    if (has_finished_) Broken("Finish is not the last effect");
    std::visit([this](const auto& e) { Judge(e); }, effect);
  }
  // The launcher would loop without pause.
  if (next_deadline && *next_deadline <= now) Broken("a deadline that has passed is not acted on");
}

void ElasticInvariants::CheckEnded() {
  if (!has_finished_) Broken("the job does not end");
}

ElasticInvariants::Worker* ElasticInvariants::Find(WorkerId worker) {
  return worker < workers_.size() && workers_[worker].is_started ? &workers_[worker] : nullptr;
}

void ElasticInvariants::Bury(WorkerId id, bool is_loss) {
  Worker* worker = Find(id);
  if (worker == nullptr || worker->is_dead) return;
  worker->is_dead = true;
  living_.erase({worker->place.host_index, worker->place.local_rank});
  const std::vector<WorkerId>& members = published_.workers;
  const bool is_member = std::find(members.begin(), members.end(), id) != members.end();
  was_member_lost_ |= is_member && is_loss;
}

void ElasticInvariants::BuryHost(int host) {
  std::vector<WorkerId> dead;
  for (auto it = living_.lower_bound({host, 0}); it != living_.end() && it->first.first == host;
       ++it) {
    dead.push_back(it->second);
  }
  for (const WorkerId worker : dead) Bury(worker, true);
}

void ElasticInvariants::Learn(const event::HostReady& e) {
  const auto host = hosts_.find(e.host);
  const bool is_awaited = host != hosts_.end() && host->second.agent == Agent::kConnecting;
  if (is_awaited) host->second.agent = Agent::kReady;
}

void ElasticInvariants::Learn(const event::HostLost& e) {
  if (hosts_.erase(e.host) > 0) BuryHost(e.host);
}

void ElasticInvariants::Learn(const event::ProcessExited& e) {
  Bury(e.worker, !e.status.is_success());
}

void ElasticInvariants::Learn(const event::WorkerArrived& e) {
  if (Worker* worker = Find(e.worker)) worker->has_arrived = true;
}

void ElasticInvariants::Learn(const event::WorkerMet& e) {
  if (Worker* worker = Find(e.worker)) worker->has_met = true;
}

void ElasticInvariants::Learn(const event::WorkerConnected& e) {
  if (Worker* worker = Find(e.worker)) worker->has_connected = true;
}

void ElasticInvariants::Learn(const event::AddressesRegistered& e) {
  if (Find(e.worker) == nullptr) return;
  const std::vector<WorkerId>& members = published_.workers;
  has_begun_ |= !was_member_lost_ && is_barrier_open_ &&
                std::all_of(members.begin(), members.end(), [this](WorkerId id) {
                  const Worker* member = Find(id);
                  return member != nullptr && member->has_connected;
                });
}

void ElasticInvariants::Learn(const event::RankAsked& e) {
  if (Worker* worker = Find(e.worker)) worker->is_parked = true;
}

void ElasticInvariants::Learn(const event::GenerationStopped& e) {
  const auto host = hosts_.find(e.host);
  if (host == hosts_.end() || !host->second.is_stopping) return;
  host->second.is_stopping = false;
  BuryHost(e.host);
}

void ElasticInvariants::Judge(const effect::ConnectHost& e) {
  if (hosts_.contains(e.host)) Broken("a host is connected twice");
  hosts_[e.host] = {.agent = Agent::kConnecting};
}

void ElasticInvariants::Judge(const effect::ReleaseHost& e) {
  hosts_.erase(e.host);
  BuryHost(e.host);
}

void ElasticInvariants::Judge(const effect::StartWorkers& e) {
  if (e.workers.empty()) Broken("StartWorkers for nobody");
  for (const NewWorker& starting : e.workers) {
    const RankInfo& place = starting.place;
    const auto host = hosts_.find(place.host_index);
    if (host == hosts_.end() || host->second.agent != Agent::kReady) {
      Broken("workers are started on a host without an agent");
    }
    if (Find(starting.worker) != nullptr) Broken("a worker's number is used twice");
    if (!living_.try_emplace({place.host_index, place.local_rank}, starting.worker).second) {
      Broken(fmt::format("a second worker for slot {} of {}, whose first one lives",
                         place.local_rank, place.host));
    }
    if (starting.worker >= workers_.size()) workers_.resize(size_t{starting.worker} + 1);
    const std::vector<WorkerId>& members = published_.workers;
    const bool is_late =
        e.generation == published_.generation &&
        std::find(members.begin(), members.end(), starting.worker) == members.end();
    if (is_late) JudgeRejoin(starting);
    workers_[starting.worker] = {.place = place,
                                 .started_for = e.generation,
                                 .is_started = true,
                                 .was_released = std::find(members.begin(), members.end(),
                                                           starting.worker) != members.end()};
  }
}

// A replacement in a published generation: only for a dead member, and only while no peer can have
// seen that one.
void ElasticInvariants::JudgeRejoin(const NewWorker& starting) {
  if (!policy_.repairs_barriers || policy_.mode == ElasticMode::kGang) {
    Broken("a worker joins a generation that has begun");
  }
  if (is_barrier_open_) Broken("a worker joins a generation that has met");
  const auto rank = static_cast<size_t>(starting.place.rank);
  if (rank >= published_.ranks.size() || published_.ranks[rank] != starting.place) {
    return Broken("a worker joins a generation in a place that it does not have");
  }
  if (rank == 0 && has_begun_) Broken("rank 0 begins anew and the state is lost");
  if (const Worker* former = Find(published_.workers[rank]); former && !former->is_dead) {
    Broken("a worker takes the place of one that lives");
  }
  published_.workers[rank] = starting.worker;
}

void ElasticInvariants::Judge(const effect::OpenBarrier& e) {
  if (e.generation != published_.generation) Broken("the barrier of another generation is opened");
  if (is_barrier_open_) Broken("a barrier is opened twice");
  is_barrier_open_ = true;
  for (const WorkerId id : published_.workers) {
    const Worker* worker = Find(id);
    const bool is_there = worker != nullptr && !worker->is_dead && worker->has_met;
    if (!is_there) Broken("a barrier is opened before all are there");
  }
}

// Ranks 0..N-1, local ranks dense, hosts together, never more than allowed.
void ElasticInvariants::JudgeMap(const effect::PublishGeneration& e) {
  const int size = static_cast<int>(e.ranks.size());
  const int least = published_.generation == 0 ? policy_.np : policy_.min_np;
  if (size < least) Broken(fmt::format("{} workers, fewer than {}", size, least));
  if (policy_.max_np && size > *policy_.max_np) {
    Broken(fmt::format("{} workers, more than max_np {}", size, *policy_.max_np));
  }
  if (e.generation <= published_.generation) Broken("a generation does not rise");
  if (e.workers.size() != e.ranks.size()) Broken("a rank without a worker");
  std::map<std::string, int> count;
  std::map<int, int> cross;
  std::set<std::string> begun;
  for (int rank = 0; rank < size; ++rank) {
    const RankInfo& info = e.ranks[static_cast<size_t>(rank)];
    if (info.rank != rank || info.size != size) Broken("ranks are not 0..N-1");
    if (info.local_rank != count[info.host]++) Broken("local ranks are not dense");
    if (info.cross_rank != cross[info.local_rank]++) Broken("cross ranks do not follow the hosts");
    const bool is_first = rank == 0 || e.ranks[static_cast<size_t>(rank - 1)].host != info.host;
    if (is_first && !begun.insert(info.host).second) Broken("the ranks of a host are not together");
  }
  for (const RankInfo& info : e.ranks) {
    if (info.local_size != count[info.host]) Broken("a wrong local size");
    if (info.cross_size != cross[info.local_rank]) Broken("a wrong cross size");
  }
}

// The members of a generation that follows another, and where they come from.
void ElasticInvariants::JudgeMembers(const effect::PublishGeneration& e) {
  const std::set<WorkerId> in_map(e.workers.begin(), e.workers.end());
  bool has_survivor = false;
  for (size_t rank = 0; rank < std::min(e.workers.size(), e.ranks.size()); ++rank) {
    const Worker* worker = Find(e.workers[rank]);
    if (worker == nullptr || worker->is_dead) {
      Broken(fmt::format("rank {} has no living worker", rank));
      continue;
    }
    const RankInfo& place = e.ranks[rank];
    if (worker->place.host != place.host || worker->place.local_rank != place.local_rank) {
      Broken("a worker has moved to another slot");
    }
    if (worker->was_released) {
      has_survivor = true;
      continue;
    }
    if (!worker->has_arrived) Broken("a newcomer is let in before it has arrived");
    if (worker->started_for != e.generation || worker->place != place) {
      Broken("a newcomer was promised another place");
    }
  }
  has_begun_ = true;
  if (!has_survivor) return Broken("nobody has the state");
  const Worker* first = e.workers.empty() ? nullptr : Find(e.workers.front());
  if (first == nullptr || !first->was_released) Broken("rank 0 is no survivor");
  for (const auto& [slot, id] : living_) {
    const bool would_enter = workers_[id].started_for == e.generation;
    if (would_enter && !in_map.contains(id)) Broken("a newcomer without a rank is let in");
  }
}

// All of its workers are new: it replaces the first generation.
void ElasticInvariants::JudgeBeginning(const effect::PublishGeneration& /*e*/) {
  if (!policy_.repairs_barriers) Broken("nobody has the state");
  if (has_begun_) Broken("a gang begins again and the state is lost");
  if (was_begun_again_) Broken("a gang begins again a second time");
  if (!living_.empty()) Broken("a gang begins again while workers of the former one live");
  was_begun_again_ = true;
}

void ElasticInvariants::Judge(const effect::PublishGeneration& e) {
  JudgeMap(e);
  if (std::set(e.workers.begin(), e.workers.end()).size() != e.workers.size()) {
    Broken("a worker has two ranks");
  }
  for (const WorkerId id : published_.workers) {
    const Worker* worker = Find(id);
    if (worker != nullptr && !worker->is_parked && !worker->is_dead) {
      Broken("a generation is published before an old worker is parked or dead");
    }
  }
  if (published_.generation != 0 && policy_.mode == ElasticMode::kHorovod) {
    const bool is_known = std::any_of(e.workers.begin(), e.workers.end(),
                                      [this](WorkerId id) { return Find(id) != nullptr; });
    is_known ? JudgeMembers(e) : JudgeBeginning(e);
  }
  published_ = e;
  is_barrier_open_ = false;
  was_member_lost_ = false;
  for (const WorkerId id : e.workers) {
    Worker* worker = Find(id);
    if (worker == nullptr) continue;  // StartWorkers follows.
    worker->is_parked = false;
    worker->has_met = false;
    worker->has_connected = false;
    worker->was_released = true;
  }
}

void ElasticInvariants::Judge(const effect::StopWorkers& e) {
  if (e.workers.empty()) Broken("StopWorkers for nobody");
  for (const WorkerId id : e.workers) {
    const Worker* worker = Find(id);
    if (worker == nullptr || worker->is_dead) Broken("a dead worker is stopped");
    was_member_lost_ = true;
  }
}

void ElasticInvariants::Judge(const effect::BreakConnections& e) {
  if (e.generation != published_.generation) {
    Broken("connections of another generation are broken");
  }
  if (!was_member_lost_) Broken("connections are broken without a loss");
}

void ElasticInvariants::Judge(const effect::Notify& e) {
  if (published_.workers.empty() || e.worker != published_.workers.front()) {
    Broken("a notice to another than rank 0");
  }
  if (e.timestamp <= last_timestamp_) Broken("timestamps of notices do not rise");
  if (e.code != UpdateCode::kMixed) Broken("a notice that lets workers skip their sync");
  last_timestamp_ = e.timestamp;
}

void ElasticInvariants::Judge(const effect::MembershipChanged& e) {
  if (e.generation != published_.generation) Broken("a change of another generation is told");
  if (e.size != static_cast<int>(published_.ranks.size())) Broken("a wrong size is told");
}

void ElasticInvariants::Judge(const effect::StopGeneration& e) {
  if (e.hosts.empty()) Broken("StopGeneration for no host");
  for (const int number : e.hosts) {
    const auto host = hosts_.find(number);
    if (host == hosts_.end()) {
      Broken("a host without an agent is told to stop");
    } else {
      host->second.is_stopping = true;
    }
  }
}

void ElasticInvariants::Judge(const effect::Say& e) {
  if (e.text.find('\n') != std::string::npos) Broken("Say has more than one line");
}

void ElasticInvariants::Judge(const effect::Finish&) {
  if (has_finished_) Broken("Finish came twice");
  has_finished_ = true;
  for (const auto& [slot, id] : living_) {
    Broken(fmt::format("the job is over and the worker on slot {} of {} lives", slot.second,
                       workers_[id].place.host));
  }
  for (const auto& [number, host] : hosts_) {
    if (host.is_stopping) Broken("the job is over before a host has reported its end");
  }
}

}  // namespace hvdray
