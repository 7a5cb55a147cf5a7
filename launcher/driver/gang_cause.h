// Why a gang is ended: exit code, error and words for each reason. Pure.
#ifndef HVDRAY_LAUNCHER_DRIVER_GANG_CAUSE_H_
#define HVDRAY_LAUNCHER_DRIVER_GANG_CAUSE_H_

#include <span>
#include <string>

#include "launcher/driver/verdict.h"

namespace hvdray {

enum class CauseKind : uint8_t {
  kNone,
  kSuccess,
  kWorkerFailed,
  kHostLost,
  kStartTimeout,
  kTimeout,
  kInterrupted,
  kReaderGone,
  kStopTimeout,
};

/// Exit codes as style 5 has them.
struct Cause {
  CauseKind kind = CauseKind::kNone;
  int exit_code = 0;
  ExitOrigin origin = ExitOrigin::kHvdray;
  Status error;
};

Cause SuccessCause();
/// `worker.status` is set and no success. `restarts`: how many came before.
Cause WorkerFailedCause(const WorkerRecord& worker, uint32_t restarts);
/// `error`, not ok, as GroupLosses() words it.
Cause HostLostCause(Status error);
/// `what`: "become ready", "start all workers".
Cause StartTimeoutCause(std::span<const std::string> hosts, const char* what, Duration limit);
Cause TimeoutCause(Duration limit);
Cause InterruptedCause(int signo);
/// Workers are stopped by SIGINT, with a grace of its own before SIGTERM, when hvdray got `signo`:
/// so that Python's KeyboardInterrupt comes up.
bool IsSigintFirst(int signo);
/// How workers are stopped, in words: "SIGINT, after 5 s SIGTERM, after 5 s SIGKILL".
std::string WayOfStop(bool is_sigint_first, Duration grace);
/// Tells the person what that signal to hvdray does, and what a second one would do.
std::string StopNotice(int signo, Duration grace);
Cause ReaderGoneCause();
/// A host did not report the end of a generation.
Cause StopTimeoutCause(std::span<const std::string> hosts, Duration waited);

/// "rank 3 on host b".
std::string NameOf(const WorkerRecord& worker);
/// "30 s", "1.5 s", "200 ms".
std::string ShowDuration(Duration duration);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_GANG_CAUSE_H_
