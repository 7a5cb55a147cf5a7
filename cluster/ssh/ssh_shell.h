// Command lines on other hosts by libssh2, one connection a host.
#ifndef HVDRAY_CLUSTER_SSH_SSH_SHELL_H_
#define HVDRAY_CLUSTER_SSH_SSH_SHELL_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "cluster/remote_shell.h"
#include "cluster/ssh/ssh_questions.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

struct Libssh2ShellOptions {
  SshUser user;
  SshOverrides overrides;
  /// For ssh -G, looked up in PATH; empty: read the configuration files ourselves.
  std::string ssh_program = "ssh";
  /// From the first byte to a host until the command has been sent off; what it waits for its turn
  /// or for a person does not count.
  Duration connect_timeout = std::chrono::seconds(30);
  /// Connections to one address that have not authenticated yet. sshd's default begins to drop
  /// some at 10 (MaxStartups 10:30:100), which others may need a part of.
  int max_connecting_per_address = 8;
  Duration keep_alive_period = std::chrono::seconds(15);
  /// Lines that a command writes to stderr; may be empty.
  std::function<void(const std::string& host, std::string_view line)> on_stderr;
  /// For passphrases, passwords and keyboard-interactive; empty: none is tried. Called from threads
  /// of the pool, one at a time.
  AskPerson ask;
};

/// Run() takes "[user@]host[:port]" (ParseSshTarget). Its errors: kSpecInvalid (the host, or the
/// user's SSH configuration), kNotSupported (only the system's ssh can do it, and why; before any
/// connection, but for keys that turn out not to be enough), kUnknownHost, kHostUnreachable,
/// kHostRefused, kConnectTimeout, kHandshakeFailed, kHostBusy (another try may succeed),
/// kHostKeyRejected, kAuthenticationFailed, kFileUnreadable (-i), kAgentStartFailed (channel or
/// exec refused). The process of AgentStart: pid() is 0. Destroying the shell calls off what is on
/// its way, questions too, and calls no `done` any more; streams that are up stay. The loop and the
/// pool outlive the shell.
std::unique_ptr<RemoteShell> MakeLibssh2Shell(Loop& loop, BlockingPool& pool,
                                              Libssh2ShellOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_SHELL_H_
