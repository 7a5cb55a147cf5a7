// A command that runs over an SSH session, as a stream and a process on the loop.
#ifndef HVDRAY_CLUSTER_SSH_SSH_COMMAND_H_
#define HVDRAY_CLUSTER_SSH_SSH_COMMAND_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "cluster/ssh/ssh_session.h"
#include "cluster/transport.h"

namespace hvdray {

struct SshCommandOptions {
  std::string host;  ///< For messages.
  /// Lines of the command's stderr, without their ends; very long ones come in pieces.
  std::function<void(std::string_view line)> on_stderr;
  Duration keep_alive_period = std::chrono::seconds(15);
  /// How long a command may go on after its stream was closed before the connection is cut.
  Duration linger = std::chrono::seconds(2);
};

/// Takes over a session after Exec(). The stream: on_closed(ok) when the command closed its
/// stdout, kAgentLost when the connection broke. Destroying it gives the command the end of its
/// stdin; the connection closes once the command has ended, at the latest after `linger`, or at
/// once when the process object is gone, too. The process ends with kAgentLost for an exit code
/// other than 0, a signal, or a lost connection. Threads: the loop's; the loop outlives both.
AgentStart StartSshCommand(Loop& loop, std::unique_ptr<SshSession> session,
                           SshCommandOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_COMMAND_H_
