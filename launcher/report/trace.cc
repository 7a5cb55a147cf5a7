// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/report_file.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

// Bounds memory for jobs that restart for days.
constexpr size_t kMaxSpans = 200'000;
constexpr size_t kMaxPhases = 10'000;

int64_t Microseconds(TimePoint from, TimePoint to) {
  return std::chrono::duration_cast<std::chrono::microseconds>(to - from).count();
}

// Metadata: the name of a process or thread, and its place among the others. Without that, Perfetto
// puts the process with the most spans first, and chrome://tracing sorts threads by their names.
void AddName(Json& all, std::string_view kind, int pid, int tid, const std::string& name) {
  Json json;
  json["name"] = fmt::format("{}_name", kind);
  json["ph"] = "M";
  json["pid"] = pid;
  json["tid"] = tid;
  json["args"]["name"] = name;
  all.push_back(json);
  json["name"] = fmt::format("{}_sort_index", kind);
  json["args"] = {{"sort_index", kind == "process" ? pid : tid}};
  all.push_back(std::move(json));
}

// An absurd number must not become a list of that size.
constexpr int kMaxTracedHosts = 1 << 20;

}  // namespace

Trace::Trace(TimePoint began, std::vector<std::string> hosts, bool is_detailed)
    : began_(began), hosts_(std::move(hosts)), is_detailed_(is_detailed) {}

std::string Trace::Name(Lane lane) const {
  if (lane.first < 0) return "generations";
  return fmt::format("{} {}", is_elastic_ ? "slot" : "rank", lane.second);
}

void Trace::Begin(std::string_view phase, TimePoint now) {
  for (const Phase& known : phases_) {
    if (known.name == phase && !known.ended.has_value()) return;
  }
  if (phases_.size() < kMaxPhases) phases_.push_back({std::string(phase), now, std::nullopt});
}

void Trace::End(std::string_view phase, TimePoint now) {
  for (Phase& known : phases_) {
    if (known.name == phase && !known.ended.has_value()) known.ended = now;
  }
}

bool Trace::HasRoom() {
  if (!is_detailed_) return false;
  if (spans_.size() < kMaxSpans) return true;
  ++dropped_;
  return false;
}

void Trace::Enter(Lane lane, std::string name, TimePoint now) {
  Leave(lane, now, {});
  if (!HasRoom()) return;
  open_[lane] = spans_.size();
  spans_.push_back({lane.first, lane.second, std::move(name), now, std::nullopt, false, {}});
}

void Trace::Leave(Lane lane, TimePoint now, std::string detail) {
  const auto found = open_.find(lane);
  if (found == open_.end()) return;
  spans_[found->second].ended = now;
  spans_[found->second].detail = std::move(detail);
  open_.erase(found);
}

void Trace::EndWorker(Lane lane, const wire::ExitStatus& status, TimePoint now) {
  if (!open_.contains(lane)) return;
  Leave(lane, now, Describe(status));
  // Viewers show the detail of a span only on a click; a mark shows at once who failed.
  if (!status.is_success()) Mark(lane, Describe(status), now);
}

void Trace::LeaveAll(int lost_host, TimePoint now) {
  if (lost_host < 0) return;
  Leave({lost_host, -1}, now, "lost");
  for (auto one = open_.lower_bound({lost_host, 0});
       one != open_.end() && one->first.first == lost_host;) {
    Leave((one++)->first, now, "lost with its agent");
  }
}

void Trace::Mark(Lane lane, std::string name, TimePoint now) {
  if (HasRoom()) spans_.push_back({lane.first, lane.second, std::move(name), now, now, true, {}});
}

void Trace::EnterAll(const std::vector<int>& hosts, std::string_view name, TimePoint now) {
  for (size_t rank = 0; rank < host_of_rank_.size(); ++rank) {
    const Lane lane{host_of_rank_[rank], static_cast<int>(rank)};
    const bool is_asked = std::find(hosts.begin(), hosts.end(), lane.first) != hosts.end();
    // Skips workers that have ended.
    if (is_asked && open_.contains(lane)) Enter(lane, std::string(name), now);
  }
}

void Trace::OnEvent(const Event& event, TimePoint now) {
  const auto lane_of = [this](int rank) {
    const auto index = static_cast<size_t>(rank);
    return Lane{rank >= 0 && index < host_of_rank_.size() ? host_of_rank_[index] : -1, rank};
  };
  if (const auto* ready = std::get_if<event::HostReady>(&event)) {
    Mark({ready->host, -1}, "ready", now);
    if (++hosts_ready_ >= hosts_.size()) End(kPhaseHello, now);
  } else if (const auto* lost = std::get_if<event::HostLost>(&event)) {
    LeaveAll(lost->host, now);
    Mark({lost->host, -1}, "lost: " + lost->why.message(), now);
    stopping_hosts_.erase(lost->host);
    if (stopping_hosts_.empty()) End(kPhaseStop, now);
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event)) {
    Enter(lane_of(started->rank), fmt::format("running, pid {}", started->pid), now);
    if (++started_ >= host_of_rank_.size()) {
      End(kPhaseStart, now);
      if (stopping_hosts_.empty()) Begin(kPhaseRun, now);
    }
  } else if (const auto* exited = std::get_if<event::WorkerExited>(&event)) {
    EndWorker(lane_of(exited->rank), exited->status, now);
    if (++ended_ >= host_of_rank_.size()) End(kPhaseRun, now);
  } else if (const auto* stopped = std::get_if<event::GenerationStopped>(&event)) {
    Mark({stopped->host, -1}, fmt::format("stopped, swept {}", stopped->swept), now);
    stopping_hosts_.erase(stopped->host);
    if (stopping_hosts_.empty()) End(kPhaseStop, now);
  } else if (const auto* synced = std::get_if<event::HostSynced>(&event)) {
    Mark({synced->host, -1},
         fmt::format("copied {} files, {} bytes", synced->stats.files, synced->stats.bytes), now);
  } else if (const auto* signal = std::get_if<event::UserSignal>(&event)) {
    Mark({-1, -1}, SignalName(signal->signo), now);
  } else if (std::holds_alternative<event::ReaderGone>(event)) {
    Mark({-1, -1}, "reader of stdout gone", now);
  } else if (const auto* damaged = std::get_if<event::OutputDamaged>(&event)) {
    Mark({-1, -1}, "output damaged: " + damaged->why.message(), now);
  }
}

void Trace::OnEffect(const Effect& effect, TimePoint now) {
  if (const auto* start = std::get_if<effect::StartGeneration>(&effect)) {
    while (!open_.empty()) Leave(open_.begin()->first, now, {});
    host_of_rank_.assign(start->ranks.size(), -1);
    started_ = ended_ = 0;
    Begin(kPhaseStart, now);
    for (const RankInfo& info : start->ranks) {
      const auto rank = static_cast<size_t>(info.rank);
      if (rank >= host_of_rank_.size()) continue;
      host_of_rank_[rank] = info.host_index;
      Enter({info.host_index, info.rank}, "starting", now);
    }
  } else if (const auto* stop = std::get_if<effect::StopGeneration>(&effect)) {
    End(kPhaseStart, now);
    End(kPhaseRun, now);
    Begin(kPhaseStop, now);
    stopping_hosts_.insert(stop->hosts.begin(), stop->hosts.end());
    EnterAll(stop->hosts, stop->grace == Duration::zero() ? "killing" : "stopping", now);
  } else if (std::holds_alternative<effect::Finish>(effect)) {
    for (const std::string_view phase : {kPhaseHello, kPhaseStart, kPhaseRun, kPhaseStop}) {
      End(phase, now);
    }
  }
}

std::string Trace::ToJson(TimePoint now) const {
  // The launcher first, then hosts. Each step of the launcher has its own row, since steps may
  // overlap. Perfetto takes thread 0 for the one that has the number of its process, which is
  // therefore no rank's; and since it shows the numbers, rank 7 gets 107.
  int first_rank = 100;
  while (std::cmp_less_equal(first_rank, hosts_.size())) first_rank *= 10;
  Json all = Json::array();
  AddName(all, "process", 0, 0, "hvdray");
  AddName(all, "thread", 0, 0, "launcher");
  std::vector<std::string> rows;
  const auto span = [&](int pid, int tid, const std::string& name, TimePoint from, TimePoint to) {
    Json json;
    json["name"] = name;
    json["ph"] = "X";
    json["ts"] = Microseconds(began_, from);
    json["dur"] = Microseconds(began_, to) - Microseconds(began_, from);  // No gap by rounding.
    json["pid"] = pid;
    json["tid"] = tid;
    return json;
  };
  for (const Phase& phase : phases_) {
    const auto row = std::find(rows.begin(), rows.end(), phase.name) - rows.begin();
    const int tid = static_cast<int>(row) + 1;
    if (static_cast<size_t>(row) == rows.size()) {
      rows.push_back(phase.name);
      AddName(all, "thread", 0, tid, phase.name);
    }
    all.push_back(span(0, tid, phase.name, phase.began, phase.ended.value_or(now)));
  }
  for (size_t i = 0; i < hosts_.size(); ++i) {
    AddName(all, "process", static_cast<int>(i) + 1, 0, hosts_[i]);
    AddName(all, "thread", static_cast<int>(i) + 1, 0, "agent");
  }
  std::set<Lane> named;
  for (const Span& one : spans_) {
    const int tid = one.rank < 0 ? 0 : one.host < 0 ? one.rank + 1 : first_rank + one.rank;
    if (one.rank >= 0 && named.insert({one.host, one.rank}).second) {
      AddName(all, "thread", one.host + 1, tid, Name({one.host, one.rank}));
    }
    Json json = span(one.host + 1, tid, one.name, one.began, one.ended.value_or(now));
    if (one.is_instant) {
      json["ph"] = "i";
      json["s"] = "t";
      json.erase("dur");
    }
    if (!one.detail.empty()) json["args"]["end"] = one.detail;
    all.push_back(std::move(json));
  }
  if (dropped_ > 0) {
    all.push_back(span(0, 0, fmt::format("{} spans left out", dropped_), now, now));
  }
  // One record per line keeps large traces readable for other tools.
  std::string text = "[\n";
  for (const Json& record : all) text += DumpJson(record) + ",\n";
  text.erase(text.size() - 2);
  return text + "\n]\n";
}

Status Trace::WriteTo(const std::string& path, TimePoint now) const {
  return WriteReportFile(path, "--trace", ToJson(now));
}

// Elastic jobs: rows of slots, generations and standstills.

Trace::Lane Trace::LaneOf(WorkerId worker) const {
  const ElasticNames::Worker* known = names_.Find(worker);
  return known != nullptr ? Lane{known->host, known->local_rank} : Lane{-1, -1};
}

void Trace::NameHost(int host, const std::string& name) {
  if (host < 0 || host >= kMaxTracedHosts) return;
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
    // A replacement for a member is a member from the start.
    if (const auto former = place_.find(names_.FormerOf(one.worker)); former != place_.end()) {
      place_[one.worker] = former->second;
    }
  }
}

// Called when `worker` runs, or will never run.
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
    // Workers that do not run yet get their span when they start.
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
    EndWorker(LaneOf(exited->worker), exited->status, now);
    OnStarted(exited->worker, now);
  } else if (const auto* arrived = std::get_if<event::WorkerArrived>(&event)) {
    Enter(LaneOf(arrived->worker), "waiting to be let in", now);
  } else if (const auto* asked = std::get_if<event::RankAsked>(&event)) {
    Enter(LaneOf(asked->worker), "waiting for its rank", now);
    StandStill(now);
  } else if (const auto* leaving = std::get_if<event::HostLeaving>(&event)) {
    Mark({leaving->host, -1}, "leaves soon", now);
  } else if (const auto* ready = std::get_if<event::HostReady>(&event)) {
    Leave({ready->host, -1}, now, "ready");
  }
  // Kinds that static jobs have, too: moments of hosts, the end of the phase "stop".
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
    // The driver knows the begin better than we do.
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
