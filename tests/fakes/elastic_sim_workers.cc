// SPDX-License-Identifier: Apache-2.0
// The life of a fake worker: start, import, meet, train, commit, hear, reset, end.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "rendezvous/horovod_protocol.h"
#include "tests/fakes/elastic_sim.h"

namespace hvdray {

using std::chrono::milliseconds;

ElasticSim::Worker* ElasticSim::Find(const std::string& host, int local_rank) {
  return const_cast<Worker*>(std::as_const(*this).Find(host, local_rank));
}

const ElasticSim::Worker* ElasticSim::Find(const std::string& host, int local_rank) const {
  for (auto it = workers_.rbegin(); it != workers_.rend(); ++it) {
    const bool is_it = it->place.host == host && it->place.local_rank == local_rank;
    if (is_it && it->is_living()) return &*it;
  }
  return nullptr;
}

bool ElasticSim::IsAlive(const std::string& host, int local_rank) const {
  return Find(host, local_rank) != nullptr;
}

int ElasticSim::RankOf(const std::string& host, int local_rank) const {
  for (const RankInfo& info : published_.ranks) {
    if (info.host == host && info.local_rank == local_rank) return info.rank;
  }
  return -1;
}

std::string ElasticSim::AnswerOf(const std::string& host, int local_rank) const {
  const auto it = answers_.find(JoinSlot(host, local_rank));
  return it == answers_.end() ? "" : it->second;
}

void ElasticSim::Exit(const std::string& host, int local_rank, wire::ExitStatus status) {
  if (Worker* worker = Find(host, local_rank)) EndWorker(worker->id, status);
}

void ElasticSim::Park(const std::string& host, int local_rank) {
  if (Worker* worker = Find(host, local_rank)) Ask(worker->id);
}

void ElasticSim::ParkAll(const std::string& only_host) {
  for (const WorkerId id : std::vector(published_.workers)) {
    const Worker& worker = workers_[id];
    if (!only_host.empty() && worker.place.host != only_host) continue;
    if (worker.is_living() && worker.phase != Phase::kParked) Ask(id);
  }
}

void ElasticSim::Register(const std::string& host, int local_rank) {
  Worker* worker = Find(host, local_rank);
  if (worker == nullptr || worker->has_registered) return;
  worker->has_registered = true;
  Report(worker->place.host_index, [this, id = worker->id] {
    KvQuestion question;
    question.op = KvOp::kWorkerAddresses;
    question.key = JoinSlot(workers_[id].place.host, workers_[id].place.local_rank);
    question.value = std::make_shared<const std::string>("lo 127.0.0.1:1\n");
    if (!workers_[id].is_known_dead && ranks_.Register(question)) {
      Feed(event::AddressesRegistered{id});
    }
  });
}

void ElasticSim::Hang(const std::string& host, int local_rank) {
  if (Worker* worker = Find(host, local_rank)) worker->hangs = true;
}

void ElasticSim::Spawn(WorkerId id) {
  Worker& worker = workers_[id];
  if (!worker.is_living()) return;
  const int host = worker.place.host_index;
  Report(host, [this, id] { Feed(event::ProcessStarted{id, 1000 + id}); });
  const bool is_newcomer = worker.started_for > 1 && policy_.mode == ElasticMode::kHorovod;
  if (is_newcomer && Chance(world_.never_arrives_of_100, 100)) {
    worker.hangs = true;
    return;
  }
  const Duration import_time = world_.is_alive ? Within(world_.import_time) : world_.import_time;
  if (is_newcomer && Chance(world_.dies_early_of_100, 100)) {
    return Schedule(import_time, [this, id] { EndWorker(id, {.exit_code = 1}); });
  }
  Schedule(import_time, [this, id] { ReachInit(id); });
}

void ElasticSim::ReachInit(WorkerId id) {
  Worker& worker = workers_[id];
  if (worker.phase != Phase::kImporting || worker.hangs) return;
  if (worker.started_for == published_.generation) return BeginInit(id, worker.started_for);
  worker.phase = Phase::kAtGate;
  Report(worker.place.host_index, [this, id] {
    if (workers_[id].is_known_dead) return;
    Feed(event::WorkerArrived{id});
  });
}

void ElasticSim::BeginInit(WorkerId id, Generation generation) {
  Worker& worker = workers_[id];
  worker.phase = Phase::kIniting;
  worker.generation = generation;
  worker.notice = 0;
  Gang& gang = gangs_[generation];
  if (world_.dies_meeting_of_100 > 0 && Chance(world_.dies_meeting_of_100, 100)) {
    Schedule(Within(world_.init_time + world_.link_delay), [this, id, generation] {
      const Worker& victim = workers_[id];
      const bool is_there = victim.phase == Phase::kIniting && victim.generation == generation;
      if (is_there) EndWorker(id, {.signal = SIGKILL});
    });
  }
  if (IsHeldApart(generation)) {
    if (worker.hangs) return;
    return Report(worker.place.host_index, [this, id] {
      if (!workers_[id].is_known_dead) Feed(event::WorkerMet{id});
    });
  }
  if (++gang.initing == static_cast<int>(gang.members.size()) && !gang.is_broken) {
    Schedule(world_.init_time, [this, generation] { Form(generation); });
  }
  if (gang.is_broken && world_.is_alive) {
    Schedule(Within(world_.gloo_timeout), [this, id, generation] {
      const Worker& waiting = workers_[id];
      if (waiting.phase == Phase::kIniting && waiting.generation == generation) {
        EndWorker(id, {.signal = SIGABRT});
      }
    });
  }
}

bool ElasticSim::IsHeldApart(Generation generation) {
  return policy_.repairs_barriers && policy_.mode == ElasticMode::kHorovod &&
         !gangs_[generation].is_open;
}

void ElasticSim::Form(Generation generation) {
  Gang& gang = gangs_[generation];
  if (gang.is_broken) return;
  gang.is_formed = true;
  const auto has_state = [this](WorkerId id) { return workers_[id].has_state; };
  const bool is_there = std::any_of(gang.members.begin(), gang.members.end(), has_state);
  if (is_there && !has_state(gang.members.front())) Break("rank 0 has no state, and others have");
  const int step = workers_[gang.members.front()].step;
  for (const WorkerId id : gang.members) {
    workers_[id].phase = Phase::kTraining;
    workers_[id].has_state = true;
    workers_[id].step = step;
    workers_[id].notice = 0;
    TellConnected(id);
    if (world_.is_alive) {
      Schedule(Within(milliseconds(300)), [this, id] {
        const Worker& worker = workers_[id];
        if (worker.is_living()) Register(worker.place.host, worker.place.local_rank);
      });
    }
  }
  if (world_.is_alive) Schedule(world_.step_time, [this, generation] { Step(generation); });
}

void ElasticSim::TellConnected(WorkerId id) {
  if (!policy_.repairs_barriers || policy_.mode == ElasticMode::kGang) return;
  Report(workers_[id].place.host_index, [this, id] {
    if (!workers_[id].is_known_dead) Feed(event::WorkerConnected{id});
  });
}

void ElasticSim::Step(Generation generation) {
  Gang& gang = gangs_[generation];
  if (gang.is_broken) return;
  const auto hangs = [this](WorkerId id) { return workers_[id].hangs; };
  if (std::any_of(gang.members.begin(), gang.members.end(), hangs)) {
    gang.is_broken = true;
    for (const WorkerId id : gang.members) Raise(id, generation, world_.gloo_timeout);
    return;
  }
  for (const WorkerId id : gang.members) ++workers_[id].step;
  const Worker& rank_0 = workers_[gang.members.front()];
  if (rank_0.step >= world_.steps) {
    for (const WorkerId id : gang.members) {
      Schedule(Within(milliseconds(200)), [this, id, generation] {
        const Worker& worker = workers_[id];
        if (worker.phase == Phase::kTraining && worker.generation == generation) EndWorker(id, {});
      });
    }
    gang.is_broken = true;
    return;
  }
  if (rank_0.notice > 0) {
    gang.is_broken = true;
    for (const WorkerId id : gang.members) Raise(id, generation, Within(milliseconds(50)));
    return;
  }
  Schedule(world_.step_time, [this, generation] { Step(generation); });
}

// Gloo tells only those who wait for the dead one; the others notice after its timeout.
void ElasticSim::BreakGang(Generation generation, WorkerId dead) {
  if (generation == 0 || IsHeldApart(generation)) return;
  Gang& gang = gangs_[generation];
  const bool was_over = gang.is_broken && gang.is_formed;
  gang.is_broken = true;
  if (!world_.is_alive) return;
  for (const WorkerId id : gang.members) {
    if (id == dead || !workers_[id].is_living()) continue;
    const bool is_neighbour = Chance(1, 2);
    if (workers_[id].phase == Phase::kTraining && !was_over) {
      Raise(id, generation, is_neighbour ? milliseconds(5) : world_.gloo_timeout);
    } else if (workers_[id].phase == Phase::kIniting) {
      const Duration in = is_neighbour ? Duration(milliseconds(5)) : world_.gloo_timeout;
      Schedule(in, [this, id, generation] {
        const Worker& worker = workers_[id];
        if (worker.phase == Phase::kIniting && worker.generation == generation) {
          EndWorker(id, {.signal = SIGABRT});
        }
      });
    } else if (workers_[id].phase == Phase::kTraining) {
      Raise(id, generation, world_.gloo_timeout);
    }
  }
}

void ElasticSim::Raise(WorkerId id, Generation generation, Duration in) {
  Schedule(in, [this, id, generation] {
    const Worker& worker = workers_[id];
    const bool is_there = worker.phase == Phase::kTraining && worker.generation == generation;
    if (is_there && !worker.hangs) Ask(id);
  });
}

void ElasticSim::Ask(WorkerId id) {
  Worker& worker = workers_[id];
  if (!worker.is_living() || worker.phase == Phase::kParked) return;
  if (worker.phase == Phase::kIniting && IsHeldApart(worker.generation)) return;
  worker.phase = Phase::kParked;
  gangs_[worker.generation].is_broken = true;
  const int host = worker.place.host_index;
  Report(host, [this, id, host] {
    if (workers_[id].is_known_dead) return;
    KvQuestion question;
    question.op = KvOp::kRankAndSize;
    question.id = (uint64_t{id} << 32) | ++next_question_;
    question.key = JoinSlot(workers_[id].place.host, workers_[id].place.local_rank);
    std::vector<RankAnswer> answers;
    const bool is_news = ranks_.Ask(host, question, &answers);
    for (const RankAnswer& answer : answers) {
      ToAgent(host, [this, id, text = *answer.answer.value] {
        TakeAnswer(id, text, published_.generation);
      });
    }
    if (is_news) Feed(event::RankAsked{id});
  });
}

void ElasticSim::TakeAnswer(WorkerId id, const std::string& text, Generation generation) {
  Worker& worker = workers_[id];
  if (worker.phase != Phase::kParked) return;
  answers_[JoinSlot(worker.place.host, worker.place.local_rank)] = text;
  if (text == kRemovedFromJob) {
    if (!worker.hangs) {
      Schedule(milliseconds(20), [this, id] { EndWorker(id, {.signal = SIGABRT}); });
    }
    return;
  }
  const auto place = std::find(published_.workers.begin(), published_.workers.end(), id);
  if (generation == published_.generation && place != published_.workers.end()) {
    const auto rank = static_cast<size_t>(place - published_.workers.begin());
    if (text != ToRankAndSize(published_.ranks[rank])) Break("an answer is not what was published");
  }
  BeginInit(id, generation);
}

void ElasticSim::TakeNotice(WorkerId id, int64_t timestamp) {
  Worker& worker = workers_[id];
  if (!worker.is_living() || timestamp <= worker.last_notice) return;
  worker.last_notice = timestamp;
  if (worker.phase == Phase::kTraining) worker.notice = timestamp;
}

void ElasticSim::EndWorker(WorkerId id, wire::ExitStatus status) {
  Worker& worker = workers_[id];
  if (!worker.is_living()) return;
  worker.phase = Phase::kDead;
  const int host = worker.place.host_index;
  BreakGang(worker.generation, id);
  const bool is_silent = worker.is_told_to_end && machines_[worker.place.host].is_stuck_in_stop;
  if (is_silent) return;
  Report(host, [this, id, status] {
    KnowDead(workers_[id]);
    Feed(event::ProcessExited{id, status});
  });
  MaybeReportStopped(host);
}

void ElasticSim::Terminate(WorkerId id, Duration grace) {
  const Worker& worker = workers_[id];
  if (!worker.is_living()) return;
  if (!worker.ignores_sigterm && grace > Duration::zero()) {
    Schedule(Within(milliseconds(20)), [this, id] { EndWorker(id, {.signal = SIGTERM}); });
  }
  Schedule(grace, [this, id] { EndWorker(id, {.signal = SIGKILL}); });
}

void ElasticSim::MaybeReportStopped(int number) {
  Host& host = hosts_[number];
  if (!host.is_stopping || machines_[host.name].is_stuck_in_stop) return;
  for (const Worker& worker : workers_) {
    if (worker.place.host_index == number && worker.is_living()) return;
  }
  host.is_stopping = false;
  Report(number, [this, number, g = host.stop_generation] {
    Feed(event::GenerationStopped{g, number, 0, static_cast<uint16_t>(20000 + 100 * g + number)});
  });
}

}  // namespace hvdray
