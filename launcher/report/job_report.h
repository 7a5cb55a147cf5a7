// SPDX-License-Identifier: Apache-2.0
// --report FILE: what happened, as JSON with a versioned schema (docs/report.md, "Report"); --junit
// FILE: the same as a JUnit test suite for CI systems, one test case per rank (docs/report.md,
// "JUnit"). No secrets and no environment: only the fields of these structs.
#ifndef HVDRAY_LAUNCHER_REPORT_JOB_REPORT_H_
#define HVDRAY_LAUNCHER_REPORT_JOB_REPORT_H_

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "launcher/driver/events.h"
#include "launcher/driver/verdict.h"
#include "launcher/report/memberships.h"
#include "launcher/report/trace.h"
#include "launcher/report/worker_lines.h"
#include "rendezvous/kv_store.h"
#include "rendezvous/relay_stats.h"
#include "wire/message.h"

namespace hvdray {

inline constexpr std::string_view kReportSchema = "hvdray.report/1";

/// A requested host; `facts` is empty if its agent never sent Hello.
struct HostReport {
  std::string name;
  int slots = 0;
  wire::HostFacts facts;
  RelayStats relay;               ///< As last reported by its agent.
  std::optional<SyncStats> sync;  ///< What --sync sent; nullopt: nothing was copied.
};

/// The first failure before a restart.
struct EarlierFailure {
  WorkerRecord worker;
  LastWords words;
};
inline constexpr size_t kMaxEarlierFailures = 1000;

/// Everything that the reports contain. Plain data; filled by the launcher at the end.
struct JobReport {
  std::string job_id;
  std::string build;                 ///< "hvdray 0.1.0 (abc1234)"
  std::vector<std::string> command;  ///< argv of the workers.
  int np = 0;
  Generation generations = 0;  ///< The last one started; 0: none.
  std::vector<HostReport> hosts;
  Verdict verdict;
  std::vector<std::string> last_lines;   ///< Of the first failure's stderr, oldest first.
  std::vector<std::string> last_stdout;  ///< Of its stdout, if it wrote nothing to stderr.
  /// Of each attempt before a restart, in order; only the latest kMaxEarlierFailures.
  std::vector<EarlierFailure> earlier_failures;
  std::vector<std::string> damaged_files;
  std::map<std::string, KvScopeStats, std::less<>> rendezvous;  ///< By scope: KvStore::stats().
  uint64_t stale_questions = 0;                                 ///< As KvStore counts them.
  uint64_t refused_questions = 0;
  bool is_peer_checked = true;
  std::vector<Phase> phases;
  std::vector<MembershipRecord> memberships;  ///< Of an elastic job.
  TimePoint began{};                          ///< When hvdray was called; base of all offsets.
  std::chrono::system_clock::time_point began_wall{};
};

/// How a worker ended, in one word: "succeeded", "failed", "stopped" (because another one failed,
/// or the whole job was ended), "lost" (with its agent), "not_started".
enum class WorkerOutcome : uint8_t { kSucceeded, kFailed, kStopped, kLost, kNotStarted };
WorkerOutcome ToOutcome(const WorkerRecord& worker, const Verdict& verdict);
std::string_view OutcomeName(WorkerOutcome outcome);

/// True if a worker ended the job or could not be started; false if it was the user, a host, or
/// hvdray itself.
bool IsWorkerToBlame(const Verdict& verdict);

/// The report's object, schema kReportSchema.
Json ToJson(const JobReport& report);

/// Replaces `path` atomically. Blocks. Errors: kOutputLost.
Status WriteJobReport(const std::string& path, const JobReport& report);

/// The first failure is a failure with its last lines of stderr; other workers that failed by
/// themselves are failures, too. Victims, workers that never started, and failed workers of an
/// elastic job that succeeded without them are skipped. A job that failed without a worker to blame
/// has one more test case, "hvdray", with an error.
std::string ToJunitXml(const JobReport& report);

/// Replaces `path` atomically. Blocks. Errors: kOutputLost.
Status WriteJunit(const std::string& path, const JobReport& report);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_JOB_REPORT_H_
