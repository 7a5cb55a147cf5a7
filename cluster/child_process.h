// Helpers that the launcher starts itself (a local agent, ssh, a remote shell): a child with a
// stream on its stdin and stdout. Workers are never started here, that is the agent's work.
#ifndef HVDRAY_CLUSTER_CHILD_PROCESS_H_
#define HVDRAY_CLUSTER_CHILD_PROCESS_H_

#include <functional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/result.h"
#include "cluster/transport.h"

namespace hvdray {

struct ChildOptions {
  /// argv; the first word is looked up in PATH unless it holds a slash.
  std::vector<std::string> command;
  /// Called with each line of its stderr, without the line's end; empty: stderr is ours.
  std::function<void(std::string line)> on_stderr;
  /// What the child is called in messages: "agent", "ssh".
  std::string name;
};

/// Starts it in a session of its own with default signals: the terminal's signals reach us alone.
/// The stream is one socket on its stdin and stdout. The AgentProcess tells how it ended (ok: exit
/// code 0; else kAgentLost with the code or signal in words) once its stderr has been read to the
/// end, or a little later. The loop outlives both.
/// Errors: kAgentStartFailed when it can't be executed, kOutOfResources, kSystem.
Result<AgentStart> StartChild(Loop& loop, ChildOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CHILD_PROCESS_H_
