// SPDX-License-Identifier: Apache-2.0
// How a job ended and which worker failed first. Weighs all evidence for the latter, since in a
// gang the first worker to end is often not the first to fail: a worker that raises an error shuts
// Horovod down in all others, which may exit before it does. Pure. docs/adr/0005-gang-driver.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_VERDICT_H_
#define HVDRAY_LAUNCHER_DRIVER_VERDICT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/last_error.h"
#include "wire/message.h"

namespace hvdray {

/// Where the exit code comes from: the worker that failed first, or hvdray itself.
enum class ExitOrigin : uint8_t { kWorker, kHvdray };

/// The life of one worker process.
struct WorkerRecord {
  int rank = 0;
  std::string host;
  int local_rank = 0;
  uint32_t pid = 0;  ///< 0: never started.
  Generation generation = 0;
  std::optional<TimePoint> started;
  std::optional<TimePoint> ended;
  std::optional<wire::ExitStatus>
      status;  ///< nullopt: running, lost with its agent, or never started.
  /// It ended because of another's failure: we stopped it, or its error blames a peer.
  bool is_victim = false;
  bool was_stopping = false;       ///< We had signalled it before it ended.
  Duration grace{};                ///< From that signal to our SIGKILL; 0: none was given.
  std::optional<TimePoint> erred;  ///< When its error appeared: see wire::WorkerExited.
  LastError error;                 ///< From stderr or its error file.
};

/// Hosts that were lost for the same reason.
struct HostLoss {
  Status error;  ///< The reason, with the hosts' names.
  std::vector<std::string> hosts;
};

/// The result of a job; made once, at its end.
struct Verdict {
  int exit_code = 0;                        ///< What hvdray returns; see docs/errors.md.
  ExitOrigin origin = ExitOrigin::kHvdray;  ///< kHvdray also for success.
  Status error;                             ///< ok on success; else code, message, hint.
  /// Set when lost hosts ended the job; `error` is that of the first. More than one only if no
  /// worker was started; see GroupLosses().
  std::vector<HostLoss> losses;
  std::optional<WorkerRecord> first_failure;
  /// All evidence agrees on `first_failure`; if not, `evidence` lists what is for and against it,
  /// half a line each.
  bool is_first_certain = true;
  std::vector<std::string> evidence;
  std::vector<WorkerRecord> workers;  ///< Of the last generation, by rank.
  uint32_t restarts = 0;
  uint32_t swept = 0;  ///< Orphans killed.
  TimePoint started{};
  TimePoint ended{};
};

/// 128+n for a signal; 127 if the command was not found, 126 if it could not be executed, 125 if
/// the worker failed before that (fork, directory, limits); else the worker's code. Stage kExec
/// with ELIBACC: the file exists, its interpreter does not (execve returns ENOENT for both).
int ExitCode(const wire::ExitStatus& status);

/// The same for the first failure. A worker stopped during its own shutdown, after its error,
/// counts as exit code 1, Python's code for an uncaught exception.
int ExitCode(const WorkerRecord& worker);

/// A verb phrase for messages: "exited with code 7", "was killed by SIGSEGV (signal 11), core
/// dumped", "ran out of memory (killed by the kernel)", "could not be executed: No such file or
/// directory".
std::string Describe(const wire::ExitStatus& status);
/// The same for the first failure; its status is set.
std::string DescribeFailure(const WorkerRecord& worker);

// Many ranks as a short text, so that one message covers them all.

/// "0-3,5"; in any order, duplicates count once. Two neighbours are "0,1".
std::string CompressRanks(std::vector<int> ranks);
/// "rank 5" or "ranks 0-3,5".
std::string RanksText(std::vector<int> ranks);

/// Who had to be killed, because it did not end within its grace: it may not have saved what it
/// wanted to save. ok: nobody. The hint says what to do.
Status KilledAfterGrace(std::span<const WorkerRecord> workers);

/// What FindCulprit() concludes, by value.
struct Culprit {
  int index = -1;           ///< Into the span of workers; -1: none of them failed.
  bool is_own = false;      ///< Its error is its own; false: every failed worker blames a peer.
  bool is_certain = false;  ///< All evidence agrees.
  std::vector<std::string> evidence;  ///< For and against, half a line each; empty when certain.
};

/// `workers`: all of one generation. Workers without a status, and workers that were stopped before
/// they showed an error, are not suspects. `preferred`: the index reported first, as a tie-breaker;
/// -1: unknown.
Culprit FindCulprit(std::span<const WorkerRecord> workers, int preferred = -1);

/// The worker was killed by SIGKILL, or died silently of a signal that another worker's error never
/// causes. Such a crash needs no comparison with the others.
bool IsPlainCrash(const WorkerRecord& worker);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_VERDICT_H_
