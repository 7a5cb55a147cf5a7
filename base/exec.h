// SPDX-License-Identifier: Apache-2.0
// Becoming another program, as a child of fork(2) or for good, and waiting for a child's end.
#ifndef HVDRAY_BASE_EXEC_H_
#define HVDRAY_BASE_EXEC_H_

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace hvdray {

/// `texts` and then `more` as execve(2) takes arguments and variables: a pointer to each, then
/// null. Valid as long as the strings.
std::vector<char*> ExecArray(std::span<const std::string> texts,
                             std::span<const std::string> more = {});

/// In the child: becomes the program argv[0], which is looked up in PATH unless it contains a
/// slash. If it can't, writes errno to `report_fd`, which is close-on-exec, and exits.
/// Async-signal-safe.
[[noreturn]] void ExecOrReport(char* const* argv, int report_fd);

/// In the parent: returns 0 once the child `pid` has become its program; else its errno, and reaps
/// it. `report`: the pipe whose write end the child reports to. Blocks.
int AwaitExec(pid_t pid, Pipe report);

/// Waits for the end of a child of this process and reaps it. Returns its status as wait(2) does.
int ReapChild(pid_t pid);

/// The exit code that a shell shows for a status of wait(2): 128 + n after signal n.
int ShellCodeOf(int wait_status);

}  // namespace hvdray

#endif  // HVDRAY_BASE_EXEC_H_
