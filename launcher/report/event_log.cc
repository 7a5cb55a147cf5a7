// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/event_log.h"

#include <algorithm>

#include "launcher/report/elastic_event_lines.h"
#include "launcher/report/facts_json.h"
#include "launcher/report/line_file.h"

namespace hvdray {
namespace {

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

  Json Begin(std::string_view event, TimePoint now) const;
  void WriteAll(const std::vector<Json>& lines, TimePoint now);
  void Write(const Json& line) { file->Write(DumpJson(line)); }
  std::string HostName(int host) const;
  void Describe(const Event& event, TimePoint now);
  void Describe(const Effect& effect, TimePoint now);

  EventLogOptions options;
  std::unique_ptr<LineFile> file;
  std::vector<std::string> host_of_rank;
  ElasticEventLines elastic;
};

Json EventLog::Impl::Begin(std::string_view event, TimePoint now) const {
  const auto since =
      std::chrono::duration_cast<std::chrono::system_clock::duration>(now - options.began);
  Json json;
  json["time"] = Offset(options.began, now);
  json["wall"] = WallText(options.began_wall + since);
  json["event"] = event;
  return json;
}

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
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<LineFile> file,
                          LineFile::Open(loop, {.option = options.option,
                                                .path = options.path,
                                                .on_damaged = std::move(options.on_damaged)}));
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

RecordWriter::RecordWriter(TimePoint began, std::unique_ptr<LineFile> file)
    : began_(began), file_(std::move(file)) {}

RecordWriter::~RecordWriter() = default;

Result<std::unique_ptr<RecordWriter>> RecordWriter::Open(Loop& loop, RecordOptions options) {
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<LineFile> file,
                          LineFile::Open(loop, {.option = std::move(options.option),
                                                .path = std::move(options.path),
                                                .on_damaged = std::move(options.on_damaged)}));
  file->Write(EncodeHeader(options.header));
  return std::unique_ptr<RecordWriter>(new RecordWriter(options.began, std::move(file)));
}

void RecordWriter::OnEvent(const ElasticEvent& event, TimePoint now) {
  if (has_ended_) return;
  file_->Write(EncodeEvent(event, Since(now)));
}

void RecordWriter::OnEnd(const Verdict& verdict, const ElasticSnapshot& snapshot, TimePoint now) {
  if (has_ended_) return;
  has_ended_ = true;
  file_->Write(EncodeEnd(EndOf(verdict, snapshot, Since(now))));
}

// As in the driver, a time before the last one counts as the last one.
Duration RecordWriter::Since(TimePoint now) {
  last_ = std::max(last_, Duration(now - began_));
  return last_;
}

}  // namespace hvdray
