// The part of Trace that knows elastic jobs: rows of slots, generations and standstills.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/report/trace.h"

namespace hvdray {
namespace {

// A number out of all range must not become a list of hosts.
constexpr int kMaxHosts = 1 << 20;

}  // namespace

Trace::Lane Trace::LaneOf(WorkerId worker) const {
  const ElasticNames::Worker* known = names_.Find(worker);
  return known != nullptr ? Lane{known->host, known->local_rank} : Lane{-1, -1};
}

void Trace::NameHost(int host, const std::string& name) {
  if (host < 0 || host >= kMaxHosts) return;
  const auto index = static_cast<size_t>(host);
  if (hosts_.size() <= index) hosts_.resize(index + 1);
  hosts_[index] = name;
}

void Trace::AddPhase(std::string_view name, TimePoint began, TimePoint ended) {
  Begin(name, began);
  End(name, ended);
}

void Trace::StandStill(TimePoint now) {
  if (!still_since_) still_since_ = now;
}

void Trace::OnStart(const effect::StartWorkers& start, TimePoint now) {
  const bool is_running = std::any_of(phases_.begin(), phases_.end(), [](const Phase& phase) {
    return phase.name == kPhaseRun && !phase.ended;
  });
  if (!is_running) Begin(kPhaseStart, now);
  for (const NewWorker& one : start.workers) {
    starting_.insert(one.worker);
    Enter(LaneOf(one.worker), "starting", now);
    // Who takes the place of a member is one from the start.
    if (const auto former = place_.find(names_.FormerOf(one.worker)); former != place_.end()) {
      place_[one.worker] = former->second;
    }
  }
}

// `worker` runs, or will never run.
void Trace::OnStarted(WorkerId worker, TimePoint now) {
  if (starting_.erase(worker) == 0 || !starting_.empty()) return;
  const bool is_start = std::any_of(phases_.begin(), phases_.end(), [](const Phase& phase) {
    return phase.name == kPhaseStart && !phase.ended;
  });
  if (!is_start) return;
  End(kPhaseStart, now);
  Begin(kPhaseRun, now);
}

void Trace::OnPublish(const effect::PublishGeneration& publish, TimePoint now) {
  End(kPhaseHello, now);
  Enter({-1, kGenerations},
        fmt::format("generation {}, {} worker{}", publish.generation, publish.ranks.size(),
                    publish.ranks.size() == 1 ? "" : "s"),
        now);
  place_.clear();
  const size_t count = std::min(publish.ranks.size(), publish.workers.size());
  for (size_t i = 0; i < count; ++i) {
    const WorkerId worker = publish.workers[i];
    place_[worker] = fmt::format("generation {}, rank {} of {}", publish.generation,
                                 publish.ranks[i].rank, publish.ranks.size());
    // Whoever does not run yet gets there by itself.
    if (open_.contains(LaneOf(worker))) Enter(LaneOf(worker), place_[worker], now);
  }
}

void Trace::Stop(const effect::StopGeneration& stop, TimePoint now) {
  End(kPhaseStart, now);
  End(kPhaseRun, now);
  Begin(kPhaseStop, now);
  stopping_hosts_.insert(stop.hosts.begin(), stop.hosts.end());
  std::vector<Lane> lanes;
  for (const auto& [lane, span] : open_) {
    const bool is_asked =
        std::find(stop.hosts.begin(), stop.hosts.end(), lane.first) != stop.hosts.end();
    if (is_asked && lane.second >= 0) lanes.push_back(lane);
  }
  const char* how = stop.grace == Duration::zero() ? "killing" : "stopping";
  for (const Lane& lane : lanes) Enter(lane, how, now);
}

void Trace::OnEvent(const ElasticEvent& event, TimePoint now) {
  is_elastic_ = true;
  names_.Learn(event);
  if (const auto* started = std::get_if<event::ProcessStarted>(&event)) {
    const auto place = place_.find(started->worker);
    const std::string doing = place != place_.end() ? place->second : "importing";
    Enter(LaneOf(started->worker), fmt::format("{}, pid {}", doing, started->pid), now);
    OnStarted(started->worker, now);
  } else if (const auto* exited = std::get_if<event::ProcessExited>(&event)) {
    Leave(LaneOf(exited->worker), now, Describe(exited->status));
    OnStarted(exited->worker, now);
  } else if (const auto* arrived = std::get_if<event::WorkerArrived>(&event)) {
    Enter(LaneOf(arrived->worker), "waiting to be let in", now);
  } else if (const auto* asked = std::get_if<event::RankAsked>(&event)) {
    Enter(LaneOf(asked->worker), "waiting for its rank", now);
    StandStill(now);
  } else if (const auto* leaving = std::get_if<event::HostLeaving>(&event)) {
    Mark({leaving->host, -1}, "leaves soon", now);
  } else if (const auto* lost = std::get_if<event::HostLost>(&event)) {
    Leave({lost->host, -1}, now, "lost");
    std::vector<Lane> lanes;
    for (const auto& [lane, span] : open_) {
      if (lane.first == lost->host && lost->host >= 0) lanes.push_back(lane);
    }
    for (const Lane& lane : lanes) Leave(lane, now, "lost with its agent");
  } else if (const auto* ready = std::get_if<event::HostReady>(&event)) {
    Leave({ready->host, -1}, now, "ready");
  }
  // What static jobs know too: moments of hosts, the end of the phase "stop".
  if (const std::optional<Event> known = AsStatic(event)) OnEvent(*known, now);
}

void Trace::OnEffect(const ElasticEffect& effect, TimePoint now) {
  is_elastic_ = true;
  names_.Learn(effect);
  if (const auto* connect = std::get_if<effect::ConnectHost>(&effect)) {
    NameHost(connect->host, connect->slots.host);
    Enter({connect->host, -1}, "connecting", now);
  } else if (const auto* release = std::get_if<effect::ReleaseHost>(&effect)) {
    Leave({release->host, -1}, now, "released");
    Mark({release->host, -1}, "released", now);
  } else if (const auto* start = std::get_if<effect::StartWorkers>(&effect)) {
    OnStart(*start, now);
  } else if (const auto* publish = std::get_if<effect::PublishGeneration>(&effect)) {
    OnPublish(*publish, now);
  } else if (const auto* stop = std::get_if<effect::StopWorkers>(&effect)) {
    for (const WorkerId worker : stop->workers) {
      const Lane lane = LaneOf(worker);
      const char* how = stop->grace == Duration::zero() ? "killing" : "stopping";
      if (open_.contains(lane)) Enter(lane, how, now);
    }
  } else if (const auto* order = std::get_if<effect::BreakConnections>(&effect)) {
    for (const int host : order->hosts) Mark({host, -1}, "connections to be broken", now);
    StandStill(now);
  } else if (const auto* notify = std::get_if<effect::Notify>(&effect)) {
    Mark(LaneOf(notify->worker), "told to meet", now);
  } else if (const auto* change = std::get_if<effect::MembershipChanged>(&effect)) {
    // The driver knows better than we when it began.
    still_since_.reset();
    if (change->stood_still > Duration::zero()) {
      AddPhase(kPhaseStandstill, now - change->stood_still, now);
    }
  } else if (const auto* all = std::get_if<effect::StopGeneration>(&effect)) {
    Stop(*all, now);
  } else if (std::holds_alternative<effect::Finish>(effect)) {
    if (still_since_) AddPhase(kPhaseStandstill, *still_since_, now);
    Leave({-1, kGenerations}, now, {});
    OnEffect(*AsStatic(effect), now);
  }
}

void Trace::OnConnectionsBroken(int host, Generation generation,
                                const wire::ConnectionsBroken& broken, TimePoint now) {
  std::string text = fmt::format("broke {} connections of generation {} in {} us",
                                 broken.shut + broken.destroyed, generation, broken.took_us);
  if (broken.refused > 0) text += fmt::format("; {} refused: {}", broken.refused, broken.why);
  Mark({host, -1}, std::move(text), now);
}

}  // namespace hvdray
