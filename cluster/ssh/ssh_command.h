// SPDX-License-Identifier: Apache-2.0
// A command that runs over an SSH session, presented as a stream and a process on the loop.
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

/// Settings of StartSshCommand().
struct SshCommandOptions {
  std::string host;  ///< For messages.
  /// Called with each stderr line of the command, without the newline; long lines come in pieces.
  std::function<void(std::string_view line)> on_stderr;
  Duration keep_alive_period = std::chrono::seconds(15);
  /// How long the command may run on after its stream was closed; then the connection is cut.
  Duration linger = std::chrono::seconds(2);
};

/// Takes over a session after Exec().
/// The stream calls on_closed with ok when the command closes its stdout, with kAgentLost when the
/// connection breaks. Destroying it closes the command's stdin; the connection closes once the
/// command has ended, after `linger` at the latest, or at once if the process object is destroyed
/// too. The process ends with kAgentLost for an exit code other than 0, a signal, or a lost
/// connection. Threads: the loop's; the loop outlives both.
AgentStart StartSshCommand(Loop& loop, std::unique_ptr<SshSession> session,
                           SshCommandOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_COMMAND_H_
