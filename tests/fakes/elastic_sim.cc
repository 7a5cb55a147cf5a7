#include "tests/fakes/elastic_sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/placement/kv_assignment.h"
#include "rendezvous/horovod_protocol.h"

namespace hvdray {

using std::chrono::milliseconds;

ElasticSim::ElasticSim(ElasticPolicy policy, ElasticWorld world, uint64_t seed)
    : policy_(policy), world_(world), random_(seed) {
  driver_ = std::make_unique<ElasticDriver>(policy, seed, now_, [this](const StateChange& change) {
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
    // A deadline that stays in the past would be a busy loop of the real launcher.
    const std::optional<TimePoint> next = driver_->NextDeadline();
    if (next && *next <= now_) {
      Break(fmt::format("a deadline was not consumed by its tick ({})", NameOf(driver_->state())));
      return false;
    }
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
  const bool was_finished = has_finished();
  const std::vector<ElasticEffect> effects = driver_->Handle(event, now_);
  if (was_finished && !effects.empty()) Break("effects after Finish");
  for (size_t i = 0; i < effects.size(); ++i) {
    if (std::holds_alternative<effect::Finish>(effects[i]) && i + 1 != effects.size()) {
      Break("Finish is not the last effect");
    }
    effects_.push_back(effects[i]);
    std::visit([this](const auto& one) { Apply(one); }, effects[i]);
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
        if (worker.place.host_index == number) KnowDead(worker, true);
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

void ElasticSim::KnowDead(Worker& worker, bool is_loss) {
  if (worker.is_known_dead) return;
  worker.is_known_dead = true;
  const bool is_member = std::find(published_.workers.begin(), published_.workers.end(),
                                   worker.id) != published_.workers.end();
  was_member_lost_ |= is_member && is_loss;
  ranks_.Forget(JoinSlot(worker.place.host, worker.place.local_rank));
}

void ElasticSim::Apply(const effect::ConnectHost& e) {
  Host& host = hosts_[e.host];
  if (host.is_linked) Break("a host is connected twice");
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
    KnowDead(worker, true);
  }
}

void ElasticSim::CheckStart(const effect::StartWorkers& e) {
  if (e.workers.empty()) Break("StartWorkers for nobody");
  for (const NewWorker& starting : e.workers) {
    const RankInfo& place = starting.place;
    if (!hosts_[place.host_index].is_known_ready) {
      Break("workers are started on a host without an agent");
    }
    if (starting.worker < workers_.size()) Break("a worker's number is used twice");
    for (const Worker& worker : workers_) {
      const bool is_same = worker.place.host_index == place.host_index &&
                           worker.place.local_rank == place.local_rank;
      if (is_same && !worker.is_known_dead) Break("a second worker for a slot that lives");
    }
  }
}

void ElasticSim::Apply(const effect::StartWorkers& e) {
  CheckStart(e);
  for (const NewWorker& starting : e.workers) {
    Worker worker;
    worker.id = starting.worker;
    worker.place = starting.place;
    worker.link = hosts_[starting.place.host_index].link;
    worker.started_for = e.generation;
    worker.ignores_sigterm = Chance(world_.ignores_sigterm_of_10, 10);
    workers_.resize(std::max<size_t>(workers_.size(), starting.worker + 1));
    workers_[starting.worker] = worker;
    ranks_.Admit(JoinSlot(worker.place.host, worker.place.local_rank));
    if (!hosts_[worker.place.host_index].is_linked) {
      workers_[worker.id].phase = Phase::kDead;  // The loss is on its way.
      continue;
    }
    ToAgent(worker.place.host_index, [this, id = worker.id] { Spawn(id); });
  }
}

// Ranks 0..N-1, local ranks dense, hosts together, never more than allowed.
void ElasticSim::CheckMap(const effect::PublishGeneration& e) {
  const int size = static_cast<int>(e.ranks.size());
  const int least = published_.generation == 0 ? policy_.np : policy_.min_np;
  if (size < least) Break(fmt::format("{} workers, fewer than {}", size, least));
  if (policy_.max_np && size > *policy_.max_np) Break("more workers than max_np");
  if (e.generation <= published_.generation) Break("a generation is published twice");
  if (e.workers.size() != e.ranks.size()) Break("a rank without a worker");
  std::map<std::string, int> count;
  std::map<int, int> cross;
  std::set<std::string> closed;
  for (int rank = 0; rank < size; ++rank) {
    const RankInfo& info = e.ranks[static_cast<size_t>(rank)];
    if (info.rank != rank || info.size != size) Break("ranks are not 0..N-1");
    if (info.local_rank != count[info.host]++) Break("local ranks are not dense");
    if (info.cross_rank != cross[info.local_rank]++) Break("cross ranks do not follow the hosts");
    if (rank > 0 && e.ranks[static_cast<size_t>(rank - 1)].host != info.host &&
        !closed.insert(e.ranks[static_cast<size_t>(rank - 1)].host).second) {
      Break("the ranks of a host are not together");
    }
  }
  for (const RankInfo& info : e.ranks) {
    if (info.local_size != count[info.host]) Break("a wrong local size");
    if (info.cross_size != cross[info.local_rank]) Break("a wrong cross size");
  }
}

void ElasticSim::CheckPublish(const effect::PublishGeneration& e) {
  CheckMap(e);
  const bool is_gang = policy_.mode == ElasticMode::kGang;
  const std::set<WorkerId> in_map(e.workers.begin(), e.workers.end());
  if (in_map.size() != e.workers.size()) Break("a worker has two ranks");
  for (const WorkerId id : published_.workers) {
    const Worker& worker = workers_[id];
    if (!worker.has_asked && !worker.is_known_dead) {
      Break("a generation is published before an old worker is parked or dead");
    }
  }
  if (published_.generation == 0 || is_gang) return;
  bool any_survivor = false;
  int most_steps = 0;
  for (size_t rank = 0; rank < e.workers.size(); ++rank) {
    const Worker& worker = workers_[e.workers[rank]];
    if (worker.is_known_dead) Break("a dead worker has a rank");
    if (worker.place.host != e.ranks[rank].host ||
        worker.place.local_rank != e.ranks[rank].local_rank) {
      Break("a worker has moved to another slot");
    }
    if (released_.contains(worker.id)) {
      any_survivor = true;
      most_steps = std::max(most_steps, worker.step);
      continue;
    }
    if (!worker.has_arrived) Break("a newcomer is let in before it has arrived");
    if (worker.started_for != e.generation || worker.place != e.ranks[rank]) {
      Break("a newcomer was promised another place");
    }
  }
  if (!any_survivor) Break("nobody has the state");
  if (!released_.contains(e.workers.front())) Break("rank 0 is no survivor");
  if (workers_[e.workers.front()].step + 1 < most_steps) Break("steps have been lost");
  for (const Worker& worker : workers_) {
    const bool would_enter = worker.started_for == e.generation && !worker.is_known_dead;
    if (would_enter && !in_map.contains(worker.id)) Break("a newcomer without a rank is let in");
  }
}

void ElasticSim::Apply(const effect::PublishGeneration& e) {
  CheckPublish(e);
  published_ = e;
  was_member_lost_ = false;
  gangs_[e.generation].members = e.workers;
  std::set<int> hosts;
  for (const WorkerId id : e.workers) {
    released_.insert(id);
    if (id >= workers_.size()) continue;  // StartWorkers follows.
    workers_[id].has_asked = false;
    if (workers_[id].phase == Phase::kAtGate) {
      ToAgent(workers_[id].place.host_index, [this, id, g = e.generation] {
        if (workers_[id].phase == Phase::kAtGate) BeginInit(id, g);
      });
    }
  }
  for (const RankAnswer& answer : ranks_.Publish(KvAssignmentOf(e.ranks, e.generation))) {
    const auto id = static_cast<WorkerId>(answer.answer.id >> 32);
    ToAgent(answer.relay,
            [this, id, text = *answer.answer.value, g = e.generation] { TakeAnswer(id, text, g); });
  }
  if (ranks_.held() != 0) Break("a held request is not answered");
}

void ElasticSim::Apply(const effect::StopWorkers& e) {
  if (e.workers.empty()) Break("StopWorkers for nobody");
  for (const WorkerId id : e.workers) {
    if (workers_[id].is_known_dead) Break("a dead worker is stopped");
    workers_[id].is_told_to_end = true;
    was_member_lost_ = true;
    ToAgent(workers_[id].place.host_index, [this, id, grace = e.grace] { Terminate(id, grace); });
  }
}

void ElasticSim::Apply(const effect::BreakConnections& e) {
  if (e.generation != published_.generation) Break("connections of another generation are broken");
  if (!was_member_lost_) Break("connections are broken without a loss");
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
  if (e.worker != published_.workers.front()) Break("a notice to another than rank 0");
  if (e.timestamp <= last_timestamp_) Break("timestamps of notices do not rise");
  if (e.code != UpdateCode::kMixed) Break("a notice that lets workers skip their sync");
  last_timestamp_ = e.timestamp;
  if (Chance(world_.notices_lost_of_10, 10)) return;
  const int copies = Chance(world_.notices_doubled_of_10, 10) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    ToAgent(e.host, [this, id = e.worker, t = e.timestamp] { TakeNotice(id, t); });
  }
}

void ElasticSim::Apply(const effect::MembershipChanged& e) {
  if (e.generation != published_.generation) Break("a change of another generation is told");
  if (e.size != static_cast<int>(published_.ranks.size())) Break("a wrong size is told");
}

void ElasticSim::Apply(const effect::StopGeneration& e) {
  if (e.hosts.empty()) Break("StopGeneration for no host");
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

void ElasticSim::Apply(const effect::Say& e) {
  if (e.text.find('\n') != std::string::npos) Break("Say has more than one line");
}

void ElasticSim::Apply(const effect::Finish& e) {
  if (has_finished()) Break("Finish came twice");
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
