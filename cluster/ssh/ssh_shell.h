// SPDX-License-Identifier: Apache-2.0
// Runs command lines on other hosts by libssh2, one connection per host.
#ifndef HVDRAY_CLUSTER_SSH_SSH_SHELL_H_
#define HVDRAY_CLUSTER_SSH_SSH_SHELL_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "cluster/ssh/ssh_questions.h"
#include "cluster/ssh/ssh_target.h"
#include "cluster/transport/remote_shell.h"

namespace hvdray {

/// How MakeLibssh2Shell() connects.
struct Libssh2ShellOptions {
  /// Maps a host of Run() to its SSH target. Called from the loop.
  std::function<Result<SshTarget>(const std::string& host)> target_of =
      [](const std::string& host) { return ParseSshTarget(host); };
  SshUser user;
  SshOverrides overrides;
  /// For ssh -G, looked up in PATH; empty: read the configuration files directly.
  std::string ssh_program = "ssh";
  /// From the first packet to a host until the command has been sent. Waiting for a turn or for the
  /// user does not count.
  Duration connect_timeout = std::chrono::seconds(30);
  /// Unauthenticated connections per address. sshd by default starts dropping them at 10
  /// (MaxStartups 10:30:100), and other users need some of those.
  int max_connecting_per_address = 8;
  Duration keep_alive_period = std::chrono::seconds(15);
  /// Called with each stderr line of a command; may be empty.
  std::function<void(const std::string& host, std::string_view line)> on_stderr;
  /// Asks for passphrases, passwords and keyboard-interactive answers; empty: skip those methods.
  /// Called from threads of the pool, one at a time.
  AskUser ask;
};

/// Errors of Run(): kSpecInvalid (the host, or the user's SSH configuration), kNotSupported (only
/// the system's ssh can reach the host; found before connecting, except when the usable keys turn
/// out not to suffice), kUnknownHost, kHostUnreachable, kHostRefused, kConnectTimeout,
/// kHandshakeFailed, kHostBusy (a retry may succeed), kHostKeyRejected, kAuthenticationFailed,
/// kFileUnreadable (-i), kAgentStartFailed (channel or exec refused). The process of AgentStart has
/// pid() 0. Destroying the shell cancels pending connections and questions without calling `done`;
/// started streams stay. The loop and the pool outlive the shell.
std::unique_ptr<RemoteShell> MakeLibssh2Shell(Loop& loop, BlockingPool& pool,
                                              Libssh2ShellOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_SHELL_H_
