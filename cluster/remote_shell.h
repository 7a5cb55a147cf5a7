// Runs one command line on a host, however it is reached: an SSH library, the system's ssh, any
// other remote shell. What that command is for (an agent) is no business of this layer.
#ifndef HVDRAY_CLUSTER_REMOTE_SHELL_H_
#define HVDRAY_CLUSTER_REMOTE_SHELL_H_

#include <functional>
#include <string>

#include "base/result.h"
#include "cluster/transport.h"

namespace hvdray {

/// Threads: the loop's.
class RemoteShell {
 public:
  virtual ~RemoteShell() = default;
  /// Has the login shell of `host` run `command` (one line of POSIX sh) without a terminal. The
  /// stream is its stdin and stdout; what it writes to stderr goes to on_stderr of the
  /// implementation, line by line. Closing the stream closes the connection. `done` is called once,
  /// from the loop, never from within Run(), when the connection is up and the command has been
  /// sent off; errors name the stage, the caller names the host: kAgentStartFailed and those of the
  /// way there; kHostBusy: another try may succeed.
  /// The process of AgentStart ends with the command: ok for exit code 0.
  virtual void Run(const std::string& host, const std::string& command,
                   std::function<void(Result<AgentStart>)> done) = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_REMOTE_SHELL_H_
