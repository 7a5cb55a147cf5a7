// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/sim.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>

namespace hvdray {

using std::chrono::milliseconds;

Sim::Sim(GangPolicy policy, std::vector<HostSlots> hosts, uint64_t seed)
    : policy_(policy),
      random_(seed),
      ranks_(AssignRanks(hosts, 1, {}).value()),
      driver_(policy, ranks_, now_, [this](const StateChange& change) {
        if (change.rank == -1)
          gang_changes_.push_back(fmt::format("{} -> {}", change.from, change.to));
      }) {
  worker_plans_.resize(ranks_.size());
  workers_.resize(ranks_.size());
  for (WorkerPlan& plan : worker_plans_) plan.ends_after = milliseconds(100);
  for (const RankInfo& info : ranks_) {
    host_plans_[info.host_index];
    hosts_[info.host_index].ranks.push_back(info.rank);
  }
}

void Sim::At(Duration moment, Event event) {
  Schedule(TimePoint{} + moment, [this, event = std::move(event)] { Feed(event); });
}

bool Sim::Run() {
  for (const auto& [index, plan] : host_plans_) {
    const int host = index;
    if (plan.ready_after) {
      const auto port = static_cast<uint16_t>(20000 + host);
      Schedule(TimePoint{} + *plan.ready_after, [this, host, port] {
        Report(host, event::HostReady{host, {.offered_port = port}});
      });
    }
    if (plan.lost_after) Schedule(TimePoint{} + *plan.lost_after, [this, host] { LoseHost(host); });
  }
  while (!has_finished()) {
    const std::optional<TimePoint> deadline = driver_.NextDeadline();
    const bool is_tick_next = deadline && (queue_.empty() || *deadline < queue_.top().when);
    if (is_tick_next) {
      now_ = std::max(now_, *deadline);
      Feed(event::Tick{});
      // A deadline that stays in the past would be a busy loop of the real launcher.
      if (!has_finished() && driver_.NextDeadline() && *driver_.NextDeadline() <= now_) {
        Break("a deadline was not consumed by its tick");
        return false;
      }
    } else if (!queue_.empty()) {
      Action action = queue_.top();
      queue_.pop();
      now_ = std::max(now_, action.when);
      action.run();
    } else {
      return false;
    }
  }
  return true;
}

void Sim::Schedule(TimePoint when, std::function<void()> run) {
  queue_.push({when, ++order_, std::move(run)});
}

void Sim::Feed(const Event& event) {
  const bool was_finished = has_finished();
  if (!was_finished) fed_.emplace_back(elapsed(), event);
  const std::vector<Effect> effects = driver_.Handle(event, now_);
  if (was_finished && !effects.empty()) Break("effects after Finish");
  for (size_t i = 0; i < effects.size(); ++i) {
    if (std::holds_alternative<effect::Finish>(effects[i]) && i + 1 != effects.size()) {
      Break("Finish is not the last effect");
    }
    std::visit([this](const auto& one) { Apply(one); }, effects[i]);
  }
}

void Sim::Apply(const effect::StartGeneration& start) {
  if (start.generation != starts_.size() + 1) Break("generations do not count up by one");
  for (const FakeWorker& worker : workers_) {
    if (worker.is_alive) Break("a generation starts while a worker of the last one lives");
  }
  for (const auto& [index, host] : hosts_) {
    if (!host.is_lost && !host.has_reported_stop) Break("a generation starts before all stopped");
  }
  starts_.push_back(start);
  for (const auto& [index, host] : hosts_) {
    ToAgent(index, [this, index = index, g = start.generation] { StartWorkers(index, g); });
  }
}

void Sim::Apply(const effect::StopGeneration& stop) {
  if (starts_.empty()) Break("StopGeneration before any StartGeneration");
  if (!starts_.empty() && stop.generation != starts_.back().generation) {
    Break("StopGeneration of a generation that is not the current one");
  }
  if (stop.hosts.empty()) Break("StopGeneration for no host");
  stops_.push_back(stop);
  for (const int host : stop.hosts) {
    ToAgent(host, [this, host, stop] { StopWorkers(host, stop.generation, stop.grace); });
  }
}

void Sim::Apply(const effect::Say& say) {
  if (say.text.find('\n') != std::string::npos) Break("Say has more than one line");
  said_.push_back(say.text);
}

void Sim::Apply(const effect::Finish& finish) {
  if (has_finished()) Break("Finish came twice");
  verdict_ = finish.verdict;
  for (size_t rank = 0; rank < workers_.size(); ++rank) {
    const int index = ranks_[rank].host_index;
    const bool is_reachable = !hosts_[index].is_lost && !host_plans_[index].is_stuck_in_stop;
    if (workers_[rank].is_alive && is_reachable) {
      Break(fmt::format("rank {} lives on a reachable host after Finish", rank));
    }
  }
}

void Sim::Report(int host, Event event) {
  FakeHost& fake = hosts_[host];
  if (fake.is_lost) return;
  const TimePoint arrives = std::max(now_ + Random(link_delay_), fake.up_link_free);
  fake.up_link_free = arrives;
  Schedule(arrives, [this, host, event = std::move(event)] {
    if (!hosts_[host].is_loss_known) Feed(event);
  });
}

void Sim::ToAgent(int host, std::function<void()> run) {
  FakeHost& fake = hosts_[host];
  const TimePoint arrives = std::max(now_ + Random(link_delay_), fake.down_link_free);
  fake.down_link_free = arrives;
  Schedule(arrives, [this, host, run = std::move(run)] {
    if (!hosts_[host].is_lost) run();
  });
}

void Sim::StartWorkers(int host, Generation generation) {
  FakeHost& fake = hosts_[host];
  if (!fake.has_reported_stop) Break("an agent got StartGeneration before it had stopped the last");
  fake.generation = generation;
  fake.has_reported_stop = false;
  fake.is_stopping = false;
  if (host_plans_[host].is_stuck_in_start) return;
  for (const int rank : fake.ranks) {
    WorkerPlan plan = worker_plans_[rank];
    if (plan.only_generation != 0 && plan.only_generation != generation) {
      plan = {.ends_after = milliseconds(10)};
    }
    workers_[rank] = {.generation = generation, .is_alive = true};
    if (plan.status.stage != wire::ExecStage::kNone) {
      EndWorker(rank, generation, plan.status);
      continue;
    }
    Report(host,
           event::WorkerStarted{generation, rank, 1000 * generation + static_cast<uint32_t>(rank)});
    if (!plan.ends_after) continue;
    Schedule(now_ + *plan.ends_after, [this, rank, generation, status = plan.status] {
      EndWorker(rank, generation, status);
    });
  }
}

void Sim::StopWorkers(int host, Generation generation, Duration grace) {
  FakeHost& fake = hosts_[host];
  if (fake.generation != generation) return;
  if (!fake.is_stopping || now_ + grace < fake.kill_at) fake.kill_at = now_ + grace;
  const bool is_first = !fake.is_stopping;
  fake.is_stopping = true;
  for (const int rank : fake.ranks) {
    FakeWorker& worker = workers_[rank];
    if (!worker.is_alive) continue;
    const WorkerPlan& plan = worker_plans_[rank];
    worker.was_signalled = true;
    const wire::ExitStatus by_term = plan.exit_code_on_sigterm
                                         ? wire::ExitStatus{.exit_code = *plan.exit_code_on_sigterm}
                                         : wire::ExitStatus{.signal = SIGTERM};
    if (is_first && !plan.ignores_sigterm && grace > Duration::zero()) {
      Schedule(now_ + Random(milliseconds(20)),
               [this, rank, generation, by_term] { EndWorker(rank, generation, by_term); });
    }
    Schedule(fake.kill_at,
             [this, rank, generation] { EndWorker(rank, generation, {.signal = SIGKILL}); });
  }
  MaybeReportStopped(host);
}

void Sim::EndWorker(int rank, Generation generation, wire::ExitStatus status) {
  FakeWorker& worker = workers_[rank];
  if (!worker.is_alive || worker.generation != generation) return;
  worker.is_alive = false;
  const int host = ranks_[rank].host_index;
  const WorkerPlan& plan = worker_plans_[rank];
  if (plan.error != LastError()) {
    Report(host, event::WorkerErred{generation, rank, plan.error, plan.erred_before});
  }
  Report(host, event::WorkerExited{generation, rank, status, worker.was_signalled});
  MaybeReportStopped(host);
}

void Sim::MaybeReportStopped(int host) {
  FakeHost& fake = hosts_[host];
  const HostPlan& plan = host_plans_[host];
  if (!fake.is_stopping || fake.has_reported_stop || plan.is_stuck_in_stop) return;
  for (const int rank : fake.ranks) {
    if (workers_[rank].is_alive) return;
  }
  fake.has_reported_stop = true;
  const auto port = static_cast<uint16_t>(20000 + 100 * fake.generation + host);
  Schedule(now_ + plan.output_drain, [this, host, g = fake.generation, plan, port] {
    Report(host, event::GenerationStopped{g, host, plan.orphans, port});
  });
}

void Sim::LoseHost(int host) {
  FakeHost& fake = hosts_[host];
  if (fake.is_lost) return;
  fake.is_lost = true;
  for (const int rank : fake.ranks) workers_[rank].is_alive = false;
  const HostPlan& plan = host_plans_[host];
  Schedule(now_ + plan.loss_noticed_after, [this, host, why = plan.why_lost] {
    hosts_[host].is_loss_known = true;
    Feed(event::HostLost{host, why});
  });
}

Duration Sim::Random(Duration most) {
  if (most <= Duration::zero()) return Duration::zero();
  return Duration(static_cast<int64_t>(random_() % static_cast<uint64_t>(most.count() + 1)));
}

}  // namespace hvdray
