// How a job ended and who broke first. A value; made by a driver, shown by the report.
#ifndef HVDRAY_LAUNCHER_DRIVER_VERDICT_H_
#define HVDRAY_LAUNCHER_DRIVER_VERDICT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "launcher/driver/last_error.h"
#include "wire/message.h"

namespace hvdray {

/// Who owns the exit code: the worker that failed first, or hvdray itself.
enum class ExitOrigin : uint8_t { kWorker, kHvdray };

/// What became of one worker process.
struct WorkerRecord {
  int rank = 0;
  std::string host;
  int local_rank = 0;
  uint32_t pid = 0;  ///< 0: never started.
  Generation generation = 0;
  std::optional<TimePoint> started;
  std::optional<TimePoint> ended;
  std::optional<wire::ExitStatus> status;  ///< nullopt: lost with its agent, or never started.
  /// Ended because of another's failure: we stopped it, or its error blames a peer.
  bool is_victim = false;
  bool was_stopping = false;       ///< We had signalled it before it ended.
  std::optional<TimePoint> erred;  ///< When its error began to show: see wire::WorkerExited.
  LastError error;                 ///< As far as stderr, or what it recorded, tells.
};

/// Hosts that were lost for the same reason.
struct HostLoss {
  Status error;  ///< Says why, and names them.
  std::vector<std::string> hosts;
};

/// Written once, at the end.
struct Verdict {
  int exit_code = 0;                        ///< What hvdray returns (style 5).
  ExitOrigin origin = ExitOrigin::kHvdray;  ///< kHvdray also for success.
  Status error;                             ///< ok on success; else code, message, hint.
  /// When lost hosts ended the job: the first of these is what `error` says. More than one only if
  /// no worker was started; see GroupLosses().
  std::vector<HostLoss> losses;
  std::optional<WorkerRecord> first_failure;
  /// All evidence agrees that `first_failure` was the first; else `evidence` says what speaks for
  /// it and what against, half a line each.
  bool is_first_certain = true;
  std::vector<std::string> evidence;
  std::vector<WorkerRecord> workers;  ///< Of the last generation, by rank.
  uint32_t restarts = 0;
  uint32_t swept = 0;  ///< Strays that had to be killed.
  TimePoint started{};
  TimePoint ended{};
};

/// 128+n for a signal; 127 for a command that was not found, 126 for one that could not be
/// executed, 125 for a worker that never came so far (fork, folder, limits); else the worker's
/// code. Stage kExec with ELIBACC: the file is there, its interpreter is not (execve says ENOENT
/// for both).
int ExitCodeOf(const wire::ExitStatus& status);

/// The same of a worker that failed first. One that was stopped in its own shutdown, after its
/// error, would have ended with 1 as Python does.
int ExitCodeOf(const WorkerRecord& worker);

/// "exited with code 7", "was killed by SIGSEGV (signal 11), core dumped",
/// "ran out of memory (killed by the kernel)", "could not be executed: No such file or directory".
std::string Describe(const wire::ExitStatus& status);
/// Of a worker that failed first, with a status.
std::string DescribeFailure(const WorkerRecord& worker);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_VERDICT_H_
