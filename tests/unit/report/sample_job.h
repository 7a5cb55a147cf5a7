// SPDX-License-Identifier: Apache-2.0
// Jobs with fixed times, for goldens.
#ifndef HVDRAY_TESTS_UNIT_REPORT_SAMPLE_JOB_H_
#define HVDRAY_TESTS_UNIT_REPORT_SAMPLE_JOB_H_

#include <csignal>

#include "base/json.h"
#include "launcher/report/job_report.h"

namespace hvdray {

inline TimePoint At(double seconds) {
  return TimePoint() + std::chrono::hours(1) +
         std::chrono::duration_cast<Duration>(Seconds(seconds));
}

inline wire::ExitStatus Exited(int code) { return {.exit_code = code}; }
inline wire::ExitStatus Killed(int signo) { return {.signal = signo}; }

/// What a worker reported on its channel. `worker`: its number in an elastic job, else its rank.
struct Reported {
  int worker;
  uint32_t number;
  Json metrics;
};

inline WorkerRecord SampleWorker(int rank, std::string host, wire::ExitStatus status,
                                 double ended) {
  WorkerRecord worker;
  worker.rank = rank;
  worker.host = std::move(host);
  worker.local_rank = rank % 2;
  worker.pid = 4000 + static_cast<uint32_t>(rank);
  worker.generation = 1;
  worker.started = At(0.5);
  worker.ended = At(ended);
  worker.status = status;
  return worker;
}

/// Four workers on two hosts succeed after 12.5 s.
inline Verdict GoodVerdict() {
  Verdict verdict;
  for (int rank = 0; rank < 4; ++rank) {
    verdict.workers.push_back(SampleWorker(rank, rank < 2 ? "node1" : "node2", Exited(0), 12.5));
  }
  verdict.started = At(0.1);
  verdict.ended = At(12.5);
  return verdict;
}

/// Rank 2 exits with 7 first; the others are stopped because of it.
inline Verdict BadVerdict() {
  Verdict verdict = GoodVerdict();
  for (WorkerRecord& worker : verdict.workers) {
    worker.is_victim = worker.rank != 2;
    worker.status = worker.rank == 2 ? Exited(7) : Killed(SIGTERM);
  }
  verdict.workers[2].ended = At(12.4);
  verdict.first_failure = verdict.workers[2];
  verdict.exit_code = 7;
  verdict.origin = ExitOrigin::kWorker;
  verdict.error = Status(ErrorCode::kWorkerFailed, "rank 2 on host node2 exited with code 7");
  return verdict;
}

/// A report with every field set.
inline JobReport FullReport() {
  JobReport report;
  report.job_id = "hvd-20261121-033730-0badcafe";
  report.build = "hvdray 0.1.0 (abc1234)";
  report.command = {"python", "train.py", "--name", "caf\xc3\xa9 \xff"};
  report.np = 4;
  report.generations = 3;
  for (const char* name : {"node1", "node2"}) {
    HostReport host{name, 2, {}, {}};
    host.facts.host_name = name;
    host.facts.system = "Linux";
    host.facts.machine = "x86_64";
    host.facts.cpu_count = 8;
    host.facts.agent_pid = 3999;
    host.facts.cleanup = "cgroup";
    host.relay.requests = 40;
    host.relay.served_from_cache = 25;
    host.relay.refused_slots = 1;
    host.sync = SyncStats{12, 34'567, std::chrono::milliseconds(250)};
    report.hosts.push_back(host);
  }
  report.verdict = BadVerdict();
  report.verdict.restarts = 2;
  report.verdict.swept = 1;
  report.last_lines = {"Traceback (most recent call last):", "ValueError: caf\xc3\xa9 \xff <7>"};
  report.earlier_failures = {
      {SampleWorker(1, "node1", {.exit_code = 9}, 3.5), {{"out of memory"}, {}}}};
  report.damaged_files = {"out/rank.3/stderr"};
  report.rendezvous["global"] = {
      .puts = 4, .gets = 20, .deletes = 4, .bytes_in = 400, .bytes_out = 2000};
  report.stale_questions = 3;
  report.phases = {{"resolve", At(0), At(0.002)},
                   {"run", At(0.6), At(12.4)},
                   {"report", At(12.5), std::nullopt}};
  report.began = At(0);
  report.began_wall =
      std::chrono::system_clock::time_point(std::chrono::milliseconds(1'795'232'250'123));
  return report;
}

}  // namespace hvdray

#endif  // HVDRAY_TESTS_UNIT_REPORT_SAMPLE_JOB_H_
