// SPDX-License-Identifier: Apache-2.0
// Starting another program or becoming one, and waiting for a child's end.
#ifndef HVDRAY_BASE_EXEC_H_
#define HVDRAY_BASE_EXEC_H_

#include <sys/types.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/fd.h"

namespace hvdray {

/// `texts` and then `more` as execve(2) takes arguments and variables: a pointer to each, then
/// null. Valid as long as the strings.
std::vector<char*> ExecArray(std::span<const std::string> texts,
                             std::span<const std::string> more = {});

/// What a child leads, apart from us and from the keys of our terminal.
enum class ApartAs : uint8_t { kGroup, kSession };

/// Starts `command` (argv; the first word is looked up in PATH unless it contains a slash) with
/// default signals, all unblocked. Signals to our process group never reach it. `in`, `out`, `err`:
/// become its stdin, stdout and stderr, and it has no other descriptor of ours; the caller keeps
/// owning them. err -1: it inherits our stderr. Sets `pid`; returns 0 or an errno.
int SpawnApart(ApartAs as, const std::vector<std::string>& command, int in, int out, int err,
               pid_t& pid);

// With fork(2).

/// In the child: becomes the program argv[0], which is looked up in PATH unless it contains a
/// slash. If it can't, writes errno to `report_fd`, which is close-on-exec, and exits.
/// Async-signal-safe.
[[noreturn]] void ExecOrReport(char* const* argv, int report_fd);

/// In the parent: returns 0 once the child `pid` has become its program; else its errno, and reaps
/// it. `report`: the pipe whose write end the child reports to. Blocks.
int AwaitExec(pid_t pid, Pipe report);

/// Waits for the end of a child of this process and reaps it. Returns its status as wait(2) does; 0
/// without such a child.
int ReapChild(pid_t pid);

/// The file of this program; "hvdray" if /proc does not tell.
std::string OwnPath();

/// The folder of the Python package that was built or installed with this program, not by pip;
/// empty: there is none.
std::string OwnPythonPath();

/// The exit code that a shell shows for a status of wait(2): 128 + n after signal n.
int ShellCode(int wait_status);

}  // namespace hvdray

#endif  // HVDRAY_BASE_EXEC_H_
