#include "launcher/driver/gang_cause.h"

#include <fmt/format.h>

#include <csignal>
#include <cstring>

#include "launcher/driver/host_list.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

std::string Hosts(std::span<const std::string> hosts) {
  return fmt::format("{} {}", hosts.size() == 1 ? "host" : "hosts", CompressHostList(hosts));
}

ErrorCode CodeOf(const wire::ExitStatus& status) {
  if (status.stage == wire::ExecStage::kNone) return ErrorCode::kWorkerFailed;
  if (status.stage != wire::ExecStage::kExec) return ErrorCode::kWorkerStartFailed;
  return ExitCodeOf(status) == 127 ? ErrorCode::kCommandNotFound : ErrorCode::kCommandNotExecutable;
}

}  // namespace

Cause SuccessCause() { return {.kind = CauseKind::kSuccess}; }

Cause WorkerFailedCause(const WorkerRecord& worker, uint32_t restarts) {
  const wire::ExitStatus& status = worker.status.value();
  std::string text = fmt::format("{} {}", NameOf(worker), DescribeFailure(worker));
  if (restarts > 0) {
    text += fmt::format(" (after {} {})", restarts, restarts == 1 ? "restart" : "restarts");
  }
  const bool has_run = status.stage == wire::ExecStage::kNone;
  return {.kind = CauseKind::kWorkerFailed,
          .exit_code = ExitCodeOf(worker),
          .origin = has_run ? ExitOrigin::kWorker : ExitOrigin::kHvdray,
          .error = {CodeOf(status), std::move(text)}};
}

Cause HostLostCause(Status error) {
  return {.kind = CauseKind::kHostLost, .exit_code = kHvdrayFailed, .error = std::move(error)};
}

Cause StartTimeoutCause(std::span<const std::string> hosts, const char* what, Duration limit) {
  return {.kind = CauseKind::kStartTimeout,
          .exit_code = kHvdrayFailed,
          .error = {ErrorCode::kDeadlineExceeded,
                    fmt::format("{} did not {} within {}", Hosts(hosts), what, ShowDuration(limit)),
                    fmt::format("look at what {} doing, or raise --start-timeout (now {})",
                                hosts.size() == 1 ? "this host is" : "these hosts are",
                                ShowDuration(limit))}};
}

Cause TimeoutCause(Duration limit) {
  return {.kind = CauseKind::kTimeout,
          .exit_code = 124,
          .error = {ErrorCode::kTimeout,
                    fmt::format("the job did not end within {}", ShowDuration(limit)),
                    fmt::format("raise --timeout (now {})", ShowDuration(limit))}};
}

Cause InterruptedCause(int signo) {
  const char* name = ::sigabbrev_np(signo);
  return {.kind = CauseKind::kInterrupted,
          .exit_code = 128 + signo,
          .error = {ErrorCode::kInterrupted, name != nullptr
                                                 ? fmt::format("stopped by SIG{}", name)
                                                 : fmt::format("stopped by signal {}", signo)}};
}

bool IsSigintFirst(int signo) { return signo == SIGINT; }

std::string WayOfStop(bool is_sigint_first, Duration grace) {
  if (grace <= Duration::zero()) return "SIGKILL";
  const std::string limit = ShowDuration(grace);
  return fmt::format("{}SIGTERM, after {} SIGKILL",
                     is_sigint_first ? fmt::format("SIGINT, after {} ", limit) : std::string(),
                     limit);
}

std::string StopNotice(int signo, Duration grace) {
  const std::string limit = ShowDuration(grace);
  return fmt::format("{}: the workers have {} to end{}; once more to kill them now",
                     InterruptedCause(signo).error.message(), limit,
                     IsSigintFirst(signo)
                         ? fmt::format(", then get SIGTERM, and SIGKILL {} later", limit)
                         : std::string());
}

Cause ReaderGoneCause() {
  return {.kind = CauseKind::kReaderGone,
          .exit_code = 128 + SIGPIPE,
          .error = {ErrorCode::kReaderGone, "the reader of stdout went away"}};
}

Cause StopTimeoutCause(std::span<const std::string> hosts, Duration waited) {
  return {.kind = CauseKind::kStopTimeout,
          .exit_code = kHvdrayFailed,
          .error = {ErrorCode::kDeadlineExceeded,
                    fmt::format("{} did not report the end of the workers within {}", Hosts(hosts),
                                ShowDuration(waited)),
                    "processes may be left there"}};
}

std::string NameOf(const WorkerRecord& worker) {
  return fmt::format("rank {} on host {}", worker.rank, worker.host);
}

std::string ShowDuration(Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 1) return fmt::format("{:.3g} ms", seconds * 1000);
  return seconds < 100 ? fmt::format("{:.3g} s", seconds) : fmt::format("{:.0f} s", seconds);
}

}  // namespace hvdray
