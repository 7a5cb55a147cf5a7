// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/job_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/report_file.h"
#include "base/text.h"
#include "base/xml.h"
#include "launcher/report/facts_json.h"

namespace hvdray {
namespace {

Json HostJson(const HostReport& host) {
  Json json;
  json["name"] = host.name;
  json["slots"] = host.slots;
  json["ready"] = host.facts.agent_pid != 0;
  json["host_name"] = host.facts.host_name;
  json["system"] = host.facts.system;
  json["machine"] = host.facts.machine;
  json["cpus"] = host.facts.cpu_count;
  json["agent_pid"] = host.facts.agent_pid;
  json["cleanup"] = host.facts.cleanup;
  for (const auto& [name, field] : kRelayCounters) json["relay"][name] = host.relay.*field;
  json["sync"] = nullptr;
  if (host.sync) json["sync"] = SyncJson(*host.sync);
  return json;
}

Json WorkerJson(const WorkerRecord& worker, const JobReport& report) {
  Json json;
  json["rank"] = worker.rank;
  json["host"] = worker.host;
  json["local_rank"] = worker.local_rank;
  json["generation"] = worker.generation;
  json["pid"] = worker.pid;
  json["state"] = OutcomeName(ToOutcome(worker, report.verdict));
  json["started_s"] = OffsetJson(report.began, worker.started);
  json["ended_s"] = OffsetJson(report.began, worker.ended);
  AddEnd(json, worker.status);
  json["victim"] = worker.is_victim;
  json["error"] = worker.error.text;
  json["blames_peer"] = worker.error.peer_words;
  json["erred_s"] = OffsetJson(report.began, worker.erred);
  return json;
}

Json RendezvousJson(const JobReport& report) {
  Json json;
  json["peer_check"] = report.is_peer_checked;
  json["stale_questions"] = report.stale_questions;
  json["refused_questions"] = report.refused_questions;
  json["scopes"] = Json::array();
  for (const auto& [scope, stats] : report.rendezvous) {
    Json row;
    row["scope"] = scope;
    row["puts"] = stats.puts;
    row["gets"] = stats.gets;
    row["deletes"] = stats.deletes;
    row["follows"] = stats.follows;
    row["bytes_in"] = stats.bytes_in;
    row["bytes_out"] = stats.bytes_out;
    json["scopes"].push_back(std::move(row));
  }
  return json;
}

Json PhasesJson(const JobReport& report) {
  Json json = Json::array();
  for (const Phase& phase : report.phases) {
    Json row;
    row["name"] = phase.name;
    row["began_s"] = Offset(report.began, phase.began);
    row["ended_s"] = OffsetJson(report.began, phase.ended);
    json.push_back(std::move(row));
  }
  return json;
}

}  // namespace

WorkerOutcome ToOutcome(const WorkerRecord& worker, const Verdict& verdict) {
  if (worker.status.has_value()) {
    if (worker.status->is_success()) return WorkerOutcome::kSucceeded;
    // There always is a first failure, unless all were ended from outside.
    const bool is_stopped = worker.is_victim || !verdict.first_failure.has_value();
    return is_stopped ? WorkerOutcome::kStopped : WorkerOutcome::kFailed;
  }
  return worker.pid == 0 ? WorkerOutcome::kNotStarted : WorkerOutcome::kLost;
}

std::string_view OutcomeName(WorkerOutcome outcome) {
  switch (outcome) {
    case WorkerOutcome::kSucceeded:
      return "succeeded";
    case WorkerOutcome::kFailed:
      return "failed";
    case WorkerOutcome::kStopped:
      return "stopped";
    case WorkerOutcome::kLost:
      return "lost";
    case WorkerOutcome::kNotStarted:
      return "not_started";
  }
  return "unknown";
}

bool IsWorkerToBlame(const Verdict& verdict) {
  if (!verdict.first_failure.has_value()) return false;
  const ErrorCode code = verdict.error.code();
  return verdict.origin == ExitOrigin::kWorker || code == ErrorCode::kCommandNotFound ||
         code == ErrorCode::kCommandNotExecutable || code == ErrorCode::kWorkerStartFailed;
}

Json ToJson(const JobReport& report) {
  const Verdict& verdict = report.verdict;
  Json json;
  json["schema"] = kReportSchema;
  json["job_id"] = report.job_id;
  json["build"] = report.build;
  json["began"] = WallText(report.began_wall);
  json["duration_s"] = Offset(report.began, verdict.ended);
  json["command"] = report.command;
  json["np"] = report.np;
  json["exit"] = ExitJson(verdict);
  json["first_failure"] = nullptr;
  if (verdict.first_failure.has_value()) {
    Json& failure = json["first_failure"];
    failure = WorkerJson(*verdict.first_failure, report);
    failure["certain"] = verdict.is_first_certain;
    failure["evidence"] = verdict.evidence;
    failure["last_stderr"] = report.last_lines;
    failure["last_stdout"] = report.last_stdout;
  }
  json["earlier_failures"] = Json::array();
  for (const EarlierFailure& earlier : report.earlier_failures) {
    Json failure = WorkerJson(earlier.worker, report);
    failure["state"] = OutcomeName(WorkerOutcome::kFailed);
    failure["last_stderr"] = earlier.words.err;
    failure["last_stdout"] = earlier.words.out;
    json["earlier_failures"].push_back(std::move(failure));
  }
  json["generations"] = report.generations;
  json["restarts"] = verdict.restarts;
  json["swept"] = verdict.swept;
  if (!report.memberships.empty()) {
    json["stood_still_s"] = Offset(TimePoint(), TimePoint() + TotalStandstill(report.memberships));
    json["memberships"] = MembershipsJson(report.memberships, report.began);
  }
  json["hosts"] = Json::array();
  for (const HostReport& host : report.hosts) json["hosts"].push_back(HostJson(host));
  json["workers"] = Json::array();
  for (const WorkerRecord& worker : verdict.workers) {
    json["workers"].push_back(WorkerJson(worker, report));
  }
  json["rendezvous"] = RendezvousJson(report);
  json["phases"] = PhasesJson(report);
  json["damaged_files"] = report.damaged_files;
  return json;
}

Status WriteJobReport(const std::string& path, const JobReport& report) {
  return WriteReportFile(path, "--report", DumpJson(ToJson(report), 2) + "\n");
}

namespace {

/// The new child; valid until the next one is added.
XmlElement& Add(XmlElement& parent, const char* name) {
  XmlElement& child = parent.children.emplace_back();
  child.name = name;
  return child;
}

void Set(XmlElement& node, const char* name, std::string_view value) {
  node.attributes.emplace_back(name, value);
}

void Set(XmlElement& node, const char* name, int64_t value) {
  Set(node, name, std::to_string(value));
}

void AddSkipped(XmlElement& test, std::string_view message) {
  Set(Add(test, "skipped"), "message", message);
}

struct Counts {
  int64_t tests = 0;
  int64_t failures = 0;
  int64_t errors = 0;
  int64_t skipped = 0;
};

// The job failed, but no worker is to blame.
bool IsOurOwnError(const Verdict& verdict) {
  return !verdict.error.ok() && !IsWorkerToBlame(verdict);
}

// The job succeeded in spite of that worker: elastic, with --success any.
bool IsForgiven(WorkerOutcome outcome, const Verdict& verdict) {
  const bool is_bad = outcome == WorkerOutcome::kFailed || outcome == WorkerOutcome::kLost;
  return is_bad && verdict.error.ok() && verdict.exit_code == 0;
}

Counts CountOf(const Verdict& verdict) {
  Counts counts;
  for (const WorkerRecord& worker : verdict.workers) {
    ++counts.tests;
    const WorkerOutcome outcome = ToOutcome(worker, verdict);
    switch (outcome) {
      case WorkerOutcome::kSucceeded:
        break;
      case WorkerOutcome::kFailed:
      case WorkerOutcome::kLost:
        ++(IsForgiven(outcome, verdict) ? counts.skipped : counts.failures);
        break;
      case WorkerOutcome::kStopped:
      case WorkerOutcome::kNotStarted:
        ++counts.skipped;
        break;
    }
  }
  if (IsOurOwnError(verdict)) {
    ++counts.tests;
    ++counts.errors;
  }
  return counts;
}

std::string TimeText(Duration time) {
  return fmt::format("{:.3f}", std::chrono::duration_cast<Seconds>(time).count());
}

// More than one error only if hosts were lost for several reasons.
std::string ErrorText(const Verdict& verdict) {
  std::string text = verdict.error.ToString() + "\n";
  for (size_t i = 1; i < verdict.losses.size(); ++i) {
    text += verdict.losses[i].error.ToString() + "\n";
  }
  return text;
}

std::string LastLinesOf(const JobReport& report) {
  std::string text;
  for (const std::string& line :
       report.last_lines.empty() ? report.last_stdout : report.last_lines) {
    text += line + "\n";
  }
  return text;
}

void AddWorker(XmlElement& suite, const WorkerRecord& worker, const JobReport& report) {
  const Verdict& verdict = report.verdict;
  XmlElement& test = Add(suite, "testcase");
  Set(test, "name", fmt::format("rank {}", worker.rank));
  Set(test, "classname", "hvdray." + worker.host);
  if (worker.started.has_value()) {
    Set(test, "time", TimeText(worker.ended.value_or(verdict.ended) - *worker.started));
  }
  const bool is_first = verdict.first_failure.has_value() &&
                        verdict.first_failure->rank == worker.rank &&
                        verdict.first_failure->generation == worker.generation;
  const std::string how = worker.status.has_value() ? Describe(*worker.status) : "";
  const WorkerOutcome outcome = ToOutcome(worker, verdict);
  if (IsForgiven(outcome, verdict)) {
    return AddSkipped(
        test, "the job succeeded without it: " + (how.empty() ? "lost with its agent" : how));
  }
  switch (outcome) {
    case WorkerOutcome::kSucceeded:
      return;
    case WorkerOutcome::kFailed: {
      XmlElement& failure = Add(test, "failure");
      Set(failure, "message", how);
      Set(failure, "type", is_first ? "first_failure" : "failure");
      if (is_first) failure.text = LastLinesOf(report);
      return;
    }
    case WorkerOutcome::kLost: {
      XmlElement& failure = Add(test, "failure");
      Set(failure, "message", "lost with the agent of its host");
      return Set(failure, "type", "lost");
    }
    case WorkerOutcome::kStopped:
      return AddSkipped(test, verdict.first_failure.has_value()
                                  ? fmt::format("stopped after the failure of rank {}: {}",
                                                verdict.first_failure->rank, how)
                                  : "stopped: " + how);
    case WorkerOutcome::kNotStarted:
      return AddSkipped(test, "never started");
  }
}

}  // namespace

std::string ToJunitXml(const JobReport& report) {
  const Verdict& verdict = report.verdict;
  const Counts counts = CountOf(verdict);
  XmlElement root{.name = "testsuites"};
  XmlElement& suite = Add(root, "testsuite");
  Set(suite, "name", "hvdray");
  Set(suite, "id", report.job_id);
  Set(suite, "tests", counts.tests);
  Set(suite, "failures", counts.failures);
  Set(suite, "errors", counts.errors);
  Set(suite, "skipped", counts.skipped);
  Set(suite, "time", TimeText(verdict.ended - report.began));
  Set(suite, "timestamp", WallText(report.began_wall));
  XmlElement& properties = Add(suite, "properties");
  const auto property = [&properties](std::string_view name, const std::string& value) {
    XmlElement& node = Add(properties, "property");
    Set(node, "name", name);
    Set(node, "value", value);
  };
  property("build", report.build);
  property("np", fmt::format("{}", report.np));
  property("exit_code", fmt::format("{}", verdict.exit_code));
  property("restarts", fmt::format("{}", verdict.restarts));
  if (!report.memberships.empty()) property("generations", fmt::format("{}", report.generations));
  for (const WorkerRecord& worker : verdict.workers) AddWorker(suite, worker, report);
  if (IsOurOwnError(verdict)) {
    XmlElement& test = Add(suite, "testcase");
    Set(test, "name", "hvdray");
    Set(test, "classname", "hvdray");
    XmlElement& error = Add(test, "error");
    Set(error, "message", verdict.error.message());
    Set(error, "type", ErrorLabel(verdict.error.code()));
    error.text = ErrorText(verdict);
  }
  return WriteXml(root);
}

Status WriteJunit(const std::string& path, const JobReport& report) {
  return WriteReportFile(path, "--junit", ToJunitXml(report));
}

}  // namespace hvdray
