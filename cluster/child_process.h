// SPDX-License-Identifier: Apache-2.0
// Helper programs that the launcher starts itself (a local agent, ssh, a remote shell): a child
// with a stream on its stdin and stdout. Never starts workers: only agents do.
#ifndef HVDRAY_CLUSTER_CHILD_PROCESS_H_
#define HVDRAY_CLUSTER_CHILD_PROCESS_H_

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "cluster/transport.h"

namespace hvdray {

/// What StartChild() runs.
struct ChildOptions {
  /// argv; the first word is looked up in PATH unless it contains a slash.
  std::vector<std::string> command;
  /// Called with each line of the child's stderr, without the newline. Empty: the child inherits
  /// our stderr.
  std::function<void(std::string line)> on_stderr;
  /// The child's name in messages: "agent", "ssh".
  std::string name;
};

/// Starts a child as SpawnHelper() does, with one socket as its stdin and stdout, and calls `done`
/// once. The AgentProcess reports its end (ok: exit code 0; otherwise kAgentLost with the code or
/// signal) after its stderr has been read to the end, or shortly later if a grandchild holds stderr
/// open. The loop outlives both. Errors: kAgentStartFailed when it can't be executed,
/// kOutOfResources, kSystem.
void StartChild(Loop& loop, ChildOptions options, std::function<void(Result<AgentStart>)> done);

// The spawn itself, for callers that want the descriptors and the exit status.

/// Descriptors that become the child's stdin, stdout and stderr. The caller keeps owning them.
/// err -1: the child inherits our stderr.
struct HelperStreams {
  int in = -1;
  int out = -1;
  int err = -1;
};

/// A running child. The caller must reap it. It leads a session and a process group; `pid` is the
/// group's number until it is reaped.
struct Helper {
  pid_t pid = -1;
  UniqueFd pidfd;  ///< Readable once it has ended.
};

/// Starts `command` (argv; the first word is looked up in PATH unless it contains a slash) in its
/// own session with default signals, so signals of the terminal reach the launcher only. The child
/// has no other open descriptor of ours.
/// Errors: kAgentStartFailed when it can't be executed, kOutOfResources, kSystem; no child is left.
Result<Helper> SpawnHelper(const std::vector<std::string>& command, const HelperStreams& streams);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CHILD_PROCESS_H_
