// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/job_report.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/descriptor_name.h"
#include "base/fd.h"
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
  json["state"] = OutcomeName(OutcomeOf(worker, report.verdict));
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

WorkerOutcome OutcomeOf(const WorkerRecord& worker, const Verdict& verdict) {
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

Status WriteReportFile(const std::string& path, std::string_view flag, std::string_view text) {
  return WriteFileAtomically(path, text).WithContext(flag).WithCode(ErrorCode::kOutputLost);
}

Status WriteJobReport(const std::string& path, const JobReport& report) {
  return WriteReportFile(path, "--report", DumpJson(ToJson(report), 2) + "\n");
}

Status CheckReportPath(const std::string& path, std::string_view flag) {
  const auto refuse = [&](const std::string& place, int error) {
    return ErrnoStatus(place, error).WithContext(flag).WithCode(ErrorCode::kFileUnwritable);
  };
  if (path.empty()) return {};
  if (path.back() == '/') return refuse(path, EISDIR);
  if (const int fd = DescriptorNamedBy(path); fd >= 0) {
    return ::fcntl(fd, F_GETFD) >= 0 ? Status() : refuse(path, errno);
  }
  struct stat info {};
  std::string target = path;
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return refuse(path, EISDIR);
    if (!S_ISREG(info.st_mode)) {
      return ::access(path.c_str(), W_OK) == 0 ? Status() : refuse(path, errno);
    }
    Result<std::string> place = PlaceToWrite(path);
    if (!place.ok()) return std::move(place).status().WithContext(flag);
    target = std::move(place).value();
  } else if (errno != ENOENT) {
    return refuse(path, errno);
  }
  // The file is replaced as a whole, so its directory must accept a new one.
  const size_t slash = target.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : target.substr(0, slash + 1);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return refuse(directory, errno);
  return {};
}

}  // namespace hvdray
