// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/event_log.h"

#include <algorithm>
#include <utility>

#include "base/json.h"
#include "launcher/report/elastic_names.h"
#include "launcher/report/facts_json.h"
#include "launcher/report/line_file.h"
#include "launcher/report/memberships.h"

namespace hvdray {
namespace {

Json Line(std::string_view event) {
  Json json;
  json["event"] = event;
  return json;
}

std::string_view Name(UpdateCode code) {
  switch (code) {
    case UpdateCode::kNone:
      return "none";
    case UpdateCode::kRemoved:
      return "removed";
    case UpdateCode::kAdded:
      return "added";
    case UpdateCode::kMixed:
      return "mixed";
  }
  return "none";
}

Json ChangeLine(const effect::MembershipChanged& change) {
  Json line = Line("membership");
  line["generation"] = change.generation;
  line["size"] = change.size;
  line["changes"] = ChangesJson(change.changes);
  line["stood_still_s"] = RoundedSeconds(change.stood_still);
  line["counted"] = change.is_counted;
  return line;
}

/// The lines for facts and effects that only elastic jobs have. Threads: one.
class ElasticEventLines {
 public:
  /// Lines without their times, "event" first. No lines for Tick, for messages to the user, for an
  /// unchanged answer of the host source, and for the kinds that static jobs have, too.
  std::vector<Json> Lines(const ElasticEvent& event);
  std::vector<Json> Lines(const ElasticEffect& effect);
  /// The line "report".
  Json Reported(WorkerId worker, uint32_t number, const Json& metrics) const;
  /// The line "connections_broken".
  Json Broken(int host, Generation generation, const wire::ConnectionsBroken& broken) const;

  std::string HostName(int host) const { return names_.HostName(host); }

 private:
  Json WorkerLine(std::string_view event, WorkerId worker) const;
  std::vector<Json> Discovered(const event::HostsDiscovered& found);
  std::vector<Json> Failed(const event::DiscoveryFailed& failed);
  std::vector<Json> Starting(const effect::StartWorkers& start) const;
  Json Published(const effect::PublishGeneration& publish) const;
  Json HostNames(const std::vector<int>& hosts) const;

  ElasticNames names_;
  std::string last_answer_;  // The host source's, as JSON; empty: none yet.
};

Json ElasticEventLines::HostNames(const std::vector<int>& hosts) const {
  Json names = Json::array();
  for (const int host : hosts) names.push_back(HostName(host));
  return names;
}

Json ElasticEventLines::WorkerLine(std::string_view event, WorkerId worker) const {
  Json line = Line(event);
  const ElasticNames::Worker* known = names_.Find(worker);
  const ElasticNames::Worker as_started = known != nullptr ? *known : ElasticNames::Worker();
  line["worker"] = worker;
  line["generation"] = as_started.generation;
  line["rank"] = as_started.rank;
  line["host"] = HostName(as_started.host);
  line["local_rank"] = as_started.local_rank;
  return line;
}

std::vector<Json> ElasticEventLines::Discovered(const event::HostsDiscovered& found) {
  Json line = Line("hosts_discovered");
  line["hosts"] = Json::array();
  for (const HostSlots& one : found.hosts) {
    Json host;
    host["host"] = one.host;
    host["slots"] = one.slots;
    line["hosts"].push_back(std::move(host));
  }
  line["final"] = found.is_final;
  if (DumpJson(line) == std::exchange(last_answer_, DumpJson(line))) return {};
  return {std::move(line)};
}

std::vector<Json> ElasticEventLines::Failed(const event::DiscoveryFailed& failed) {
  Json line = Line("discovery_failed");
  line["error"] = ErrorJson(failed.why);
  if (DumpJson(line) == std::exchange(last_answer_, DumpJson(line))) return {};
  return {std::move(line)};
}

std::vector<Json> ElasticEventLines::Lines(const ElasticEvent& event) {
  names_.Learn(event);
  if (const auto* found = std::get_if<event::HostsDiscovered>(&event)) return Discovered(*found);
  if (const auto* failed = std::get_if<event::DiscoveryFailed>(&event)) return Failed(*failed);
  if (const auto* started = std::get_if<event::ProcessStarted>(&event)) {
    Json line = WorkerLine("worker_started", started->worker);
    line["pid"] = started->pid;
    return {std::move(line)};
  }
  if (const auto* exited = std::get_if<event::ProcessExited>(&event)) {
    Json line = WorkerLine("worker_exited", exited->worker);
    AddEnd(line, exited->status);
    const ElasticNames::Worker* known = names_.Find(exited->worker);
    line["stopping"] = known != nullptr && known->is_told_to_end;
    return {std::move(line)};
  }
  if (const auto* arrived = std::get_if<event::WorkerArrived>(&event)) {
    return {WorkerLine("worker_arrived", arrived->worker)};
  }
  if (const auto* met = std::get_if<event::WorkerMet>(&event)) {
    return {WorkerLine("worker_met", met->worker)};
  }
  if (const auto* connected = std::get_if<event::WorkerConnected>(&event)) {
    return {WorkerLine("worker_connected", connected->worker)};
  }
  if (const auto* asked = std::get_if<event::RankAsked>(&event)) {
    return {WorkerLine("rank_asked", asked->worker)};
  }
  if (const auto* registered = std::get_if<event::AddressesRegistered>(&event)) {
    return {WorkerLine("worker_registered", registered->worker)};
  }
  if (const auto* leaving = std::get_if<event::HostLeaving>(&event)) {
    Json line = Line("host_leaving");
    line["host"] = HostName(leaving->host);
    line["in_s"] = RoundedSeconds(leaving->in);
    return {std::move(line)};
  }
  return {};
}

std::vector<Json> ElasticEventLines::Starting(const effect::StartWorkers& start) const {
  std::vector<Json> lines;
  for (const NewWorker& one : start.workers) {
    if (const WorkerId former = names_.FormerOf(one.worker); former != kNoWorker) {
      lines.push_back(WorkerLine("worker_replaced", former));
      lines.back()["by"] = one.worker;
    }
    lines.push_back(WorkerLine("worker_starting", one.worker));
    lines.back()["restart"] = start.restart_count;
  }
  return lines;
}

Json ElasticEventLines::Published(const effect::PublishGeneration& publish) const {
  Json line = Line("generation");
  line["generation"] = publish.generation;
  line["ranks"] = Json::array();
  const size_t count = std::min(publish.ranks.size(), publish.workers.size());
  for (size_t i = 0; i < count; ++i) {
    const ElasticNames::Worker* known = names_.Find(publish.workers[i]);
    Json row;
    row["rank"] = publish.ranks[i].rank;
    row["host"] = publish.ranks[i].host;
    row["local_rank"] = publish.ranks[i].local_rank;
    row["worker"] = publish.workers[i];
    row["pid"] = nullptr;
    if (known != nullptr && known->pid != 0) row["pid"] = known->pid;
    line["ranks"].push_back(std::move(row));
  }
  return line;
}

std::vector<Json> ElasticEventLines::Lines(const ElasticEffect& effect) {
  names_.Learn(effect);
  if (const auto* start = std::get_if<effect::StartWorkers>(&effect)) return Starting(*start);
  if (const auto* publish = std::get_if<effect::PublishGeneration>(&effect)) {
    return {Published(*publish)};
  }
  if (const auto* change = std::get_if<effect::MembershipChanged>(&effect)) {
    return {ChangeLine(*change)};
  }
  Json line;
  if (const auto* connect = std::get_if<effect::ConnectHost>(&effect)) {
    line = Line("host_connecting");
    line["host"] = connect->slots.host;
    line["slots"] = connect->slots.slots;
  } else if (const auto* release = std::get_if<effect::ReleaseHost>(&effect)) {
    line = Line("host_released");
    line["host"] = HostName(release->host);
  } else if (const auto* stop = std::get_if<effect::StopWorkers>(&effect)) {
    line = Line("stop_workers");
    line["workers"] = stop->workers;
    line["grace_s"] = RoundedSeconds(stop->grace);
  } else if (const auto* order = std::get_if<effect::BreakConnections>(&effect)) {
    line = Line("break_connections");
    line["generation"] = order->generation;
    line["hosts"] = HostNames(order->hosts);
  } else if (const auto* open = std::get_if<effect::OpenBarrier>(&effect)) {
    line = Line("meeting_opened");
    line["generation"] = open->generation;
  } else if (const auto* notify = std::get_if<effect::Notify>(&effect)) {
    line = Line("notice");
    line["worker"] = notify->worker;
    line["host"] = HostName(notify->host);
    line["timestamp"] = notify->timestamp;
    line["code"] = Name(notify->code);
  } else {
    return {};
  }
  return {std::move(line)};
}

Json ElasticEventLines::Broken(int host, Generation generation,
                               const wire::ConnectionsBroken& broken) const {
  Json line = Line("connections_broken");
  line["host"] = HostName(host);
  line["generation"] = generation;
  line["shut"] = broken.shut;
  line["destroyed"] = broken.destroyed;
  line["refused"] = broken.refused;
  line["took_s"] = RoundedSeconds(std::chrono::microseconds(broken.took_us));
  line["why"] = broken.why;
  line["hint"] = broken.hint;
  return line;
}

Json ElasticEventLines::Reported(WorkerId worker, uint32_t number, const Json& metrics) const {
  Json line = WorkerLine("report", worker);
  line["n"] = number;
  line["metrics"] = metrics;
  return line;
}

Json RankJson(const RankInfo& info) {
  Json json;
  json["rank"] = info.rank;
  json["host"] = info.host;
  json["local_rank"] = info.local_rank;
  return json;
}

}  // namespace

struct EventLog::Impl {
  Impl(EventLogOptions given, std::unique_ptr<LineFile> target)
      : options(std::move(given)), file(std::move(target)) {}

  Json Begin(std::string_view event, TimePoint now) const {
    return EventLine(event, options.began, options.began_wall, now);
  }
  void WriteAll(const std::vector<Json>& lines, TimePoint now);
  void Write(const Json& line) {
    if (file) file->Write(DumpJson(line));
    if (options.sink) options.sink(line);
  }
  std::string HostName(int host) const;
  void Describe(const Event& event, TimePoint now);
  void Describe(const Effect& effect, TimePoint now);

  EventLogOptions options;
  std::unique_ptr<LineFile> file;
  std::vector<std::string> host_of_rank;
  ElasticEventLines elastic;
};

std::string EventLog::Impl::HostName(int host) const {
  const auto index = static_cast<size_t>(host);
  const bool is_listed = host >= 0 && index < options.hosts.size();
  return is_listed ? options.hosts[index] : elastic.HostName(host);
}

void EventLog::Impl::WriteAll(const std::vector<Json>& lines, TimePoint now) {
  for (const Json& line : lines) {
    Json stamped = Begin("", now);
    stamped.update(line);
    Write(stamped);
  }
}

void EventLog::Impl::Describe(const Event& event, TimePoint now) {
  if (const auto* ready = std::get_if<event::HostReady>(&event)) {
    Json line = Begin("host_ready", now);
    line["host"] = HostName(ready->host);
    line["agent_pid"] = ready->facts.agent_pid;
    line["cpus"] = ready->facts.cpu_count;
    Write(line);
  } else if (const auto* lost = std::get_if<event::HostLost>(&event)) {
    Json line = Begin("host_lost", now);
    line["host"] = HostName(lost->host);
    line["error"] = ErrorJson(lost->why);
    Write(line);
  } else if (const auto* started = std::get_if<event::WorkerStarted>(&event)) {
    Json line = Begin("worker_started", now);
    const auto rank = static_cast<size_t>(started->rank);
    line["generation"] = started->generation;
    line["rank"] = started->rank;
    line["host"] = rank < host_of_rank.size() ? host_of_rank[rank] : "";
    line["pid"] = started->pid;
    Write(line);
  } else if (const auto* exited = std::get_if<event::WorkerExited>(&event)) {
    Json line = Begin("worker_exited", now);
    const auto rank = static_cast<size_t>(exited->rank);
    line["generation"] = exited->generation;
    line["rank"] = exited->rank;
    line["host"] = rank < host_of_rank.size() ? host_of_rank[rank] : "";
    AddEnd(line, exited->status);
    line["stopping"] = exited->was_stopping;
    Write(line);
  } else if (const auto* stopped = std::get_if<event::GenerationStopped>(&event)) {
    Json line = Begin("host_stopped", now);
    line["generation"] = stopped->generation;
    line["host"] = HostName(stopped->host);
    line["swept"] = stopped->swept;
    Write(line);
  } else if (const auto* synced = std::get_if<event::HostSynced>(&event)) {
    Json line = Begin("host_synced", now);
    line["host"] = HostName(synced->host);
    line.update(SyncJson(synced->stats));
    Write(line);
  } else if (const auto* signal = std::get_if<event::UserSignal>(&event)) {
    Json line = Begin("signal", now);
    line["signal"] = SignalName(signal->signo);
    Write(line);
  } else if (std::holds_alternative<event::ReaderGone>(event)) {
    Write(Begin("reader_gone", now));
  } else if (const auto* damaged = std::get_if<event::OutputDamaged>(&event)) {
    Json line = Begin("output_damaged", now);
    line["error"] = ErrorJson(damaged->why);
    Write(line);
  }
}

void EventLog::Impl::Describe(const Effect& effect, TimePoint now) {
  if (const auto* start = std::get_if<effect::StartGeneration>(&effect)) {
    Json line = Begin("generation", now);
    line["generation"] = start->generation;
    line["restart"] = start->restart_count;
    line["ranks"] = Json::array();
    host_of_rank.assign(start->ranks.size(), {});
    for (const RankInfo& info : start->ranks) {
      const auto rank = static_cast<size_t>(info.rank);
      if (rank < host_of_rank.size()) host_of_rank[rank] = info.host;
      line["ranks"].push_back(RankJson(info));
    }
    Write(line);
  } else if (const auto* stop = std::get_if<effect::StopGeneration>(&effect)) {
    Json line = Begin("stop", now);
    line["generation"] = stop->generation;
    line["hosts"] = Json::array();
    for (const int host : stop->hosts) line["hosts"].push_back(HostName(host));
    line["grace_s"] = std::chrono::duration_cast<Seconds>(stop->grace).count();
    Write(line);
  } else if (const auto* finish = std::get_if<effect::Finish>(&effect)) {
    Json line = Begin("end", now);
    line["exit"] = ExitJson(finish->verdict);
    line["restarts"] = finish->verdict.restarts;
    line["swept"] = finish->verdict.swept;
    Write(line);
  }
}

EventLog::EventLog(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

EventLog::~EventLog() = default;

Result<std::unique_ptr<EventLog>> EventLog::Open(Loop& loop, EventLogOptions options) {
  std::unique_ptr<LineFile> file;
  if (!options.path.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(file, LineFile::Open(loop, {.option = options.option,
                                                        .path = options.path,
                                                        .on_damaged = options.on_damaged}));
  }
  auto impl = std::make_unique<Impl>(std::move(options), std::move(file));
  Json line;
  line["schema"] = kEventsSchema;
  line.update(impl->Begin("job", impl->options.began));
  line["job_id"] = impl->options.job_id;
  line["build"] = impl->options.build;
  line["command"] = impl->options.command;
  line["np"] = impl->options.np;
  line["hosts"] = impl->options.hosts;
  impl->Write(line);
  return std::unique_ptr<EventLog>(new EventLog(std::move(impl)));
}

void EventLog::OnEvent(const Event& event, TimePoint now) { impl_->Describe(event, now); }
void EventLog::OnEffect(const Effect& effect, TimePoint now) { impl_->Describe(effect, now); }

void EventLog::OnEvent(const ElasticEvent& event, TimePoint now) {
  impl_->WriteAll(impl_->elastic.Lines(event), now);
  if (const std::optional<Event> known = AsStatic(event)) impl_->Describe(*known, now);
}

void EventLog::OnEffect(const ElasticEffect& effect, TimePoint now) {
  impl_->WriteAll(impl_->elastic.Lines(effect), now);
  if (const std::optional<Effect> known = AsStatic(effect)) impl_->Describe(*known, now);
}

void EventLog::OnConnectionsBroken(int host, Generation generation,
                                   const wire::ConnectionsBroken& broken, TimePoint now) {
  impl_->WriteAll({impl_->elastic.Broken(host, generation, broken)}, now);
}

void EventLog::OnWarmed(std::string_view host, Generation generation, const wire::Warmed& warmed,
                        TimePoint now) {
  Json line = impl_->Begin("warmed", now);
  line["generation"] = generation;
  line["host"] = std::string(host);
  line["is_warm"] = warmed.is_warm;
  line["why"] = warmed.why;
  line["modules"] = warmed.modules;
  line["took_s"] = RoundedSeconds(std::chrono::milliseconds(warmed.took_ms));
  impl_->Write(line);
}

void EventLog::OnReport(Generation generation, int rank, uint32_t number, const Json& metrics,
                        TimePoint now) {
  const auto index = static_cast<size_t>(rank);
  Json line = impl_->Begin("report", now);
  line["generation"] = generation;
  line["rank"] = rank;
  line["host"] = index < impl_->host_of_rank.size() ? impl_->host_of_rank[index] : "";
  line["n"] = number;
  line["metrics"] = metrics;
  impl_->Write(line);
}

void EventLog::OnReport(WorkerId worker, uint32_t number, const Json& metrics, TimePoint now) {
  impl_->WriteAll({impl_->elastic.Reported(worker, number, metrics)}, now);
}

}  // namespace hvdray
