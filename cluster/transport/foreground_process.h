// SPDX-License-Identifier: Apache-2.0
// Programs that this process runs in its own place: at the user's terminal, or for their output.
// Nothing else runs meanwhile: both calls block.
#ifndef HVDRAY_CLUSTER_TRANSPORT_FOREGROUND_PROCESS_H_
#define HVDRAY_CLUSTER_TRANSPORT_FOREGROUND_PROCESS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "cluster/transport/command_shell.h"

namespace hvdray {

/// How such a program ended.
struct ProcessEnd {
  int exit_code = 0;  ///< 128 + n when signal n killed it.
  /// The last of SIGHUP, SIGINT, SIGQUIT and SIGTERM that this process received meanwhile; 0: none.
  int signo = 0;
  std::vector<std::string> error_lines;  ///< Of its stderr, if that was asked for.
  /// kOutputLost if OutputBy::kUs could not write it whole, kReaderGone.
  Status output_damage;
};

enum class ErrorsOf : uint8_t { kGoToOurs, kAreKept };
/// Who writes the program's output into a stdout that is a file. We, where the program would not
/// tell that it could not.
enum class OutputBy : uint8_t { kProgram, kUs };

/// Runs `command` (argv) with our stdin, stdout, stderr and process group, so that the terminal's
/// size, keys and job control are the program's own. Passes signals on that were sent to this
/// process alone, and stops when the program stops. Errors: kAgentStartFailed when it can't be
/// executed, kOutOfResources, kSystem.
Result<ProcessEnd> RunInForeground(const std::vector<std::string>& command,
                                   ErrorsOf errors = ErrorsOf::kGoToOurs,
                                   OutputBy output = OutputBy::kProgram);

/// The same in a session of its own, without a terminal to take keys or signals from. Whichever
/// signal this process receives, of its terminal's keys, too, the session's process group gets
/// SIGTERM, and after `grace` SIGKILL; returns when none of it is left. Without a signal, what the
/// command leaves in the background goes on.
Result<ProcessEnd> RunInOwnSession(const std::vector<std::string>& command, Duration grace);

/// Runs `command` on `host` in the foreground through the system's ssh and returns the command's
/// exit code, or 128 + n after signal n ended ssh. `warnings`: what ssh itself said although the
/// connection held, as about a forwarded port. Errors: those of ExplainOpenssh() when ssh failed,
/// kOutputLost if stdout was not written whole, and those of RunInForeground().
Result<int> RunOverSsh(OpensshOptions options, const std::string& host, const std::string& command,
                       std::vector<std::string>* warnings);

/// A program's end with its output.
struct CapturedRun {
  int exit_code = 0;  ///< -1: killed by a signal.
  std::string output;
  std::vector<std::string> error_lines;  ///< Of its stderr, without empty ones.
};

/// Runs `command` with `input` as its stdin and reads at most 1 MiB of output. The caller ignores
/// SIGPIPE, since the program may take less than all input. Errors:
/// kDeadlineExceeded when it has not ended after `limit`, kCancelled once `cancel_fd` is readable
/// (-1: never); both kill it. kAgentStartFailed, kOutOfResources, kSystem.
Result<CapturedRun> RunForOutput(const std::vector<std::string>& command, std::string_view input,
                                 Duration limit, int cancel_fd = -1);

/// The same on `host` through the system's ssh. Errors: also those of ExplainOpenssh().
Result<CapturedRun> RunOverSshForOutput(const OpensshOptions& options, const std::string& host,
                                        const std::string& command, std::string_view input,
                                        Duration limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_FOREGROUND_PROCESS_H_
