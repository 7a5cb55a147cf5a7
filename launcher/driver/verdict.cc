// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/verdict.h"

#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstring>

namespace hvdray {
namespace {

std::string ErrorText(int error) {
  // The agent's code for a file that exists while the interpreter in its first line or header does
  // not.
  if (error == ELIBACC) return "its interpreter does not exist";
  char buffer[128];
  return ::strerror_r(error, buffer, sizeof buffer);
}

std::string SignalText(int signo) {
  const char* name = ::sigabbrev_np(signo);
  if (name != nullptr) return fmt::format("SIG{} (signal {})", name, signo);
  if (signo >= SIGRTMIN && signo <= SIGRTMAX) {
    return fmt::format("SIGRTMIN+{} (signal {})", signo - SIGRTMIN, signo);
  }
  return fmt::format("signal {}", signo);
}

std::string DescribeStage(const wire::ExitStatus& status) {
  switch (status.stage) {
    case wire::ExecStage::kNone:
      break;
    case wire::ExecStage::kFork:
      return fmt::format("could not be started: fork: {}", ErrorText(status.error));
    case wire::ExecStage::kDirectory:
      return fmt::format("could not be entered as working directory: {}", ErrorText(status.error));
    case wire::ExecStage::kDescriptors:
      return fmt::format("could not be started: file descriptors: {}", ErrorText(status.error));
    case wire::ExecStage::kLimits:
      return fmt::format("could not be started: process group or limits: {}",
                         ErrorText(status.error));
    case wire::ExecStage::kExec:
      return fmt::format("could not be executed: {}", ErrorText(status.error));
  }
  return fmt::format("could not be started: stage {}: {}", static_cast<int>(status.stage),
                     ErrorText(status.error));
}

bool WasStoppedAfterError(const WorkerRecord& worker) {
  return worker.was_stopping && worker.status->signal != 0 && worker.error.is_own();
}

}  // namespace

int ExitCodeOf(const wire::ExitStatus& status) {
  if (status.stage == wire::ExecStage::kExec) return status.error == ENOENT ? 127 : 126;
  if (status.stage != wire::ExecStage::kNone) return 125;
  // An agent can send any number; none may turn a failure into 0, as 256 would.
  if (status.signal != 0) {
    return status.signal > 0 && status.signal < 128 ? 128 + status.signal : 255;
  }
  return status.exit_code >= 0 && status.exit_code < 256 ? status.exit_code : 255;
}

int ExitCodeOf(const WorkerRecord& worker) {
  return WasStoppedAfterError(worker) ? 1 : ExitCodeOf(worker.status.value());
}

std::string DescribeFailure(const WorkerRecord& worker) {
  if (!WasStoppedAfterError(worker)) return Describe(worker.status.value());
  return fmt::format("failed ({}) and was stopped while it ended", worker.error.text);
}

std::string Describe(const wire::ExitStatus& status) {
  if (status.stage != wire::ExecStage::kNone) return DescribeStage(status);
  if (status.is_oom) return "ran out of memory (killed by the kernel)";
  if (status.signal != 0) {
    return fmt::format("was killed by {}{}", SignalText(status.signal),
                       status.has_core ? ", core dumped" : "");
  }
  return fmt::format("exited with code {}", status.exit_code);
}

}  // namespace hvdray
