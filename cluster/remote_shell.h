// SPDX-License-Identifier: Apache-2.0
// Runs one command line on a host through any kind of remote shell: an SSH library, the system's
// ssh, another program. Knows nothing about the command's purpose.
#ifndef HVDRAY_CLUSTER_REMOTE_SHELL_H_
#define HVDRAY_CLUSTER_REMOTE_SHELL_H_

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "cluster/transport.h"

namespace hvdray {

/// Opens connections to hosts and runs commands there. Threads: the loop's.
class RemoteShell {
 public:
  virtual ~RemoteShell() = default;
  /// Has the login shell of `host` run `command` (one line of POSIX sh) without a terminal. The
  /// stream is its stdin and stdout; the implementation passes its stderr on, line by line. Closing
  /// the stream closes the connection. Calls `done` once, when the connection is up and the command
  /// has been sent.
  /// Errors: kAgentStartFailed and those of the connection; kHostBusy: a retry may succeed. They
  /// name the stage; the caller adds the host.
  /// The process of AgentStart ends with the command: ok for exit code 0.
  virtual void Run(const std::string& host, const std::string& command,
                   std::function<void(Result<AgentStart>)> done) = 0;
};

/// Runs commands by `first`, and by `second` where `first` answers kNotSupported. All other errors
/// are final. Both outlive the shell.
std::unique_ptr<RemoteShell> MakeFallbackShell(RemoteShell& first, RemoteShell& second);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_REMOTE_SHELL_H_
