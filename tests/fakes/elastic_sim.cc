// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/elastic_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/driver/elastic_mode.h"
#include "launcher/job/placement.h"
#include "rendezvous/horovod_protocol.h"

namespace hvdray {

using std::chrono::milliseconds;

ElasticSim::ElasticSim(ElasticPolicy policy, ElasticWorld world, uint64_t seed)
    : policy_(policy),
      world_(world),
      random_(seed),
      invariants_(policy, [this](std::string rule) { Break(std::move(rule)); }) {
  driver_ = MakeElasticDriver(policy, seed, now_, [this](const StateChange& change) {
    if (change.rank == -1) changes_.push_back(fmt::format("{} -> {}", change.from, change.to));
  });
}

void ElasticSim::At(Duration moment, std::function<void()> run) {
  queue_.push({TimePoint{} + moment, ++order_, std::move(run)});
}

void ElasticSim::Schedule(Duration in, std::function<void()> run) {
  queue_.push({now_ + in, ++order_, std::move(run)});
}

bool ElasticSim::RunOne(TimePoint until) {
  const std::optional<TimePoint> deadline = driver_->NextDeadline();
  const bool is_tick_next = deadline && (queue_.empty() || *deadline < queue_.top().when);
  if (is_tick_next) {
    if (*deadline > until) return false;
    now_ = std::max(now_, *deadline);
    Feed(event::Tick{});
    // A deadline that stays in the past would be an endless loop.
    const std::optional<TimePoint> next = driver_->NextDeadline();
    if (next && *next <= now_) return false;
    return true;
  }
  if (queue_.empty() || queue_.top().when > until) return false;
  Action action = queue_.top();
  queue_.pop();
  now_ = std::max(now_, action.when);
  action.run();
  return true;
}

void ElasticSim::Advance(Duration by) {
  const TimePoint until = now_ + by;
  while (!has_finished() && RunOne(until)) {
  }
  now_ = until;
}

bool ElasticSim::Run(Duration limit) {
  while (!has_finished() && RunOne(TimePoint{} + limit)) {
  }
  return has_finished();
}

void ElasticSim::Feed(const ElasticEvent& event) {
  facts_.emplace_back(now_, event);
  const std::vector<ElasticEffect> effects = driver_->Handle(event, now_);
  invariants_.Check(event, now_, effects, driver_->NextDeadline());
  for (const ElasticEffect& effect : effects) {
    effects_.push_back(effect);
    std::visit([this](const auto& one) { Apply(one); }, effect);
  }
}

void ElasticSim::Discover(std::vector<HostSlots> hosts, bool is_final) {
  Feed(event::HostsDiscovered{std::move(hosts), is_final});
}

void ElasticSim::CutOff(const std::string& name) {
  machines_[name].is_up = false;
  for (auto& [number, host] : hosts_) {
    if (host.name != name || !host.is_linked) continue;
    host.is_linked = false;
    ++host.link;
    for (Worker& worker : workers_) {
      if (worker.place.host_index != number || !worker.is_living()) continue;
      worker.phase = Phase::kDead;
      BreakGang(worker.generation, worker.id);
    }
    const int link = host.link;
    Schedule(machines_[name].loss_noticed_after, [this, number = number, link] {
      if (hosts_[number].link != link) return;
      hosts_[number].is_known_ready = false;
      for (Worker& worker : workers_) {
        if (worker.place.host_index == number) KnowDead(worker);
      }
      Feed(event::HostLost{number, {ErrorCode::kAgentLost, "its agent fell silent"}});
    });
  }
}

void ElasticSim::Leave(const std::string& name, Duration in) {
  const auto host = std::find_if(hosts_.begin(), hosts_.end(),
                                 [&](const auto& entry) { return entry.second.name == name; });
  if (host != hosts_.end()) Feed(event::HostLeaving{host->first, in});
}

// From an agent to the launcher, unless the link breaks before.
void ElasticSim::Report(int number, std::function<void()> run) {
  Host& host = hosts_[number];
  if (!host.is_linked) return;
  host.up_free = std::max(now_ + Within(world_.link_delay), host.up_free);
  const auto arrive = [this, number, link = host.link, run = std::move(run)] {
    if (hosts_[number].is_linked && hosts_[number].link == link) run();
  };
  if (host.up_free <= now_) return arrive();
  Schedule(host.up_free - now_, arrive);
}

void ElasticSim::ToAgent(int number, std::function<void()> run) {
  Host& host = hosts_[number];
  if (!host.is_linked) return;
  host.down_free = std::max(now_ + Within(world_.link_delay), host.down_free);
  // Never at once: a worker's answer must not come while effects are still applied.
  Schedule(host.down_free - now_, [this, number, link = host.link, run = std::move(run)] {
    if (hosts_[number].is_linked && hosts_[number].link == link) run();
  });
}

void ElasticSim::KnowDead(Worker& worker) {
  if (worker.is_known_dead) return;
  worker.is_known_dead = true;
  ranks_.Forget(JoinSlot(worker.place.host, worker.place.local_rank));
}

void ElasticSim::Apply(const effect::ConnectHost& e) {
  Host& host = hosts_[e.host];
  host.name = e.slots.host;
  const int link = ++host.link;
  const bool works = machines_[host.name].is_up && !machines_[host.name].is_refusing;
  Schedule(
      world_.connect + machines_[host.name].connect_later, [this, number = e.host, link, works] {
        Host& dialled = hosts_[number];
        if (dialled.link != link) return;
        if (!works || !machines_[dialled.name].is_up) {
          return Feed(event::HostLost{number, {ErrorCode::kHostRefused, "connection refused"}});
        }
        dialled.is_linked = true;
        dialled.is_known_ready = true;
        dialled.is_stopping = false;
        Feed(event::HostReady{number, {.offered_port = static_cast<uint16_t>(20000 + number)}});
      });
}

void ElasticSim::Apply(const effect::ReleaseHost& e) {
  Host& host = hosts_[e.host];
  host.is_linked = false;
  host.is_known_ready = false;
  ++host.link;
  for (Worker& worker : workers_) {
    if (worker.place.host_index != e.host) continue;
    if (worker.is_living()) {
      worker.phase = Phase::kDead;
      BreakGang(worker.generation, worker.id);
    }
    KnowDead(worker);
  }
}

void ElasticSim::Apply(const effect::StartWorkers& e) {
  for (const NewWorker& starting : e.workers) {
    Worker worker;
    worker.id = starting.worker;
    worker.place = starting.place;
    worker.link = hosts_[starting.place.host_index].link;
    worker.started_for = e.generation;
    worker.ignores_sigterm = Chance(world_.ignores_sigterm_of_10, 10);
    while (workers_.size() <= starting.worker) {  // Numbers of an earlier job are nobody's.
      Worker nobody;
      nobody.id = static_cast<WorkerId>(workers_.size());
      nobody.phase = Phase::kDead;
      workers_.push_back(nobody);
    }
    workers_[starting.worker] = worker;
    const auto rank = static_cast<size_t>(worker.place.rank);
    if (e.generation == published_.generation && published_.workers[rank] != worker.id) {
      published_.workers[rank] = gangs_[e.generation].members[rank] = worker.id;
    }
    ranks_.Admit(JoinSlot(worker.place.host, worker.place.local_rank));
    if (!hosts_[worker.place.host_index].is_linked) {
      workers_[worker.id].phase = Phase::kDead;  // The loss is on its way.
      continue;
    }
    ToAgent(worker.place.host_index, [this, id = worker.id] { Spawn(id); });
  }
}

// Whoever has trained furthest is, but for one step, where rank 0 is: it broadcasts its state.
void ElasticSim::CheckSteps(const effect::PublishGeneration& e) {
  if (published_.generation == 0 || policy_.mode == ElasticMode::kGang) return;
  if (e.workers.front() >= workers_.size()) return;  // All begin anew.
  int most_steps = 0;
  for (const WorkerId id : e.workers) {
    if (released_.contains(id)) most_steps = std::max(most_steps, workers_[id].step);
  }
  if (workers_[e.workers.front()].step + 1 < most_steps) Break("steps have been lost");
}

void ElasticSim::Apply(const effect::PublishGeneration& e) {
  CheckSteps(e);
  published_ = e;
  gangs_[e.generation].members = e.workers;
  std::set<int> hosts;
  for (const WorkerId id : e.workers) {
    released_.insert(id);
    if (id >= workers_.size()) continue;  // StartWorkers follows.
    if (workers_[id].phase == Phase::kAtGate) {
      ToAgent(workers_[id].place.host_index, [this, id, g = e.generation] {
        if (workers_[id].phase == Phase::kAtGate) BeginInit(id, g);
      });
    }
  }
  for (const RankAnswer& answer : ranks_.Publish(ToKvAssignment(e.ranks, e.generation))) {
    const auto id = static_cast<WorkerId>(answer.answer.id >> 32);
    ToAgent(answer.relay,
            [this, id, text = *answer.answer.value, g = e.generation] { TakeAnswer(id, text, g); });
  }
  if (ranks_.held() != 0) Break("a held request is not answered");
}

void ElasticSim::Apply(const effect::OpenBarrier& e) {
  Gang& gang = gangs_[e.generation];
  gang.is_open = true;
  for (const WorkerId id : gang.members) {
    if (!workers_[id].is_living()) BreakGang(e.generation, id);
  }
  if (gang.is_broken) return;
  Schedule(world_.init_time, [this, generation = e.generation] { Form(generation); });
}

void ElasticSim::Apply(const effect::StopWorkers& e) {
  for (const WorkerId id : e.workers) {
    workers_[id].is_told_to_end = true;
    ToAgent(workers_[id].place.host_index, [this, id, grace = e.grace] { Terminate(id, grace); });
  }
}

void ElasticSim::Apply(const effect::BreakConnections& e) {
  if (!world_.is_alive) return;
  for (const int host : e.hosts) {
    ToAgent(host, [this, host, g = e.generation] {
      for (const Worker& worker : std::vector(workers_)) {
        if (worker.place.host_index != host || worker.generation != g) continue;
        if (worker.phase == Phase::kTraining) Raise(worker.id, g, milliseconds(1));
        if (worker.phase == Phase::kIniting) EndWorker(worker.id, {.signal = SIGABRT});
      }
    });
  }
}

void ElasticSim::Apply(const effect::Notify& e) {
  if (Chance(world_.notices_lost_of_10, 10)) return;
  const int copies = Chance(world_.notices_doubled_of_10, 10) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    ToAgent(e.host, [this, id = e.worker, t = e.timestamp] { TakeNotice(id, t); });
  }
}

void ElasticSim::Apply(const effect::StopGeneration& e) {
  for (const int number : e.hosts) {
    ToAgent(number, [this, number, e] {
      hosts_[number].is_stopping = true;
      hosts_[number].stop_generation = e.generation;
      for (const Worker& worker : std::vector(workers_)) {
        if (worker.place.host_index == number) Terminate(worker.id, e.grace);
      }
      MaybeReportStopped(number);
    });
  }
}

void ElasticSim::Apply(const effect::Finish& e) {
  verdict_ = e.verdict;
  for (const Worker& worker : workers_) {
    const Host& host = hosts_[worker.place.host_index];
    const bool is_reachable = host.is_linked && !machines_[host.name].is_stuck_in_stop;
    if (worker.is_living() && is_reachable)
      Break("a worker lives on a reachable host after Finish");
  }
}

std::vector<std::string> ElasticSim::said() const {
  std::vector<std::string> lines;
  for (const effect::Say& say : All<effect::Say>()) lines.push_back(say.text);
  return lines;
}

Duration ElasticSim::Within(Duration most) {
  if (most <= Duration::zero()) return Duration::zero();
  return Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(most.count() + 1)));
}

}  // namespace hvdray
