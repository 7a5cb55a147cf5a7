// SPDX-License-Identifier: Apache-2.0
// Remote shells that are programs: the system's ssh, or the command of --launch-agent.
#ifndef HVDRAY_CLUSTER_TRANSPORT_COMMAND_SHELL_H_
#define HVDRAY_CLUSTER_TRANSPORT_COMMAND_SHELL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/transport/child_process.h"
#include "cluster/transport/remote_shell.h"

namespace hvdray {

/// The argv that runs `command` on `host`.
using ShellArgv =
    std::function<std::vector<std::string>(const std::string& host, const std::string& command)>;

/// See RemoteShell::Explain().
using ExplainEnd = std::function<Status(const Status& how, const std::vector<std::string>& lines)>;

/// Starts one child per host. Calls `done` once the child runs; only its output and its end show
/// whether it reached the host. `name`: in messages, "ssh". loop and errors outlive the shell.
/// kDropped: with its AgentProcess; those of all of them end before the shell. kItself: for one
/// that may be the agent. `explain`: empty for what RemoteShell says by itself.
std::unique_ptr<RemoteShell> MakeCommandShell(Loop& loop, std::string name, ShellArgv argv,
                                              RemoteStderr& errors, ChildEnd end,
                                              ExplainEnd explain = {});

/// Options of the system's ssh. ssh takes omitted settings from its config files. As they are, they
/// suit a program that talks through ssh: no terminal, no questions, no forwarding.
struct OpensshOptions {
  std::string program = "ssh";
  std::string user;
  int port = 0;                          ///< 0: ssh's own.
  std::string identity_file;             ///< Empty: ssh's own.
  std::string proxy_command;             ///< Empty: ssh's own.
  std::string strict_host_key_checking;  ///< yes, accept-new or no.
  std::string host_key_alias;            ///< The name in known_hosts. Empty: ssh's own.
  std::string config_file;               ///< Empty: ssh's own.
  int connect_timeout_s = 30;
  // From OpensshNeeds:
  std::vector<std::string> session_options;  ///< More arguments of -o.
  bool has_own_forwards = false;             ///< The configuration forwards ports.
  std::string proxy;                         ///< For messages: "ProxyJump bastion". Empty: none.
  std::vector<std::string> local_forwards;   ///< Arguments of ssh's -L.
  bool has_terminal = false;  ///< Give the command a terminal there; "~" is ssh's escape character.
  bool may_ask = false;       ///< Ask the user at the terminal for passwords and host keys.
  std::string log_file;       ///< Takes ssh's own messages. Empty: its stderr does.
};

/// The words before the host. Pure.
std::vector<std::string> OpensshWords(const OpensshOptions& options);

/// argv that runs `command` on `host`; empty: the user's own login shell. ServerAlive finds a dead
/// peer even while the agent's own heartbeat is silent. Pure.
std::vector<std::string> OpensshArgv(const OpensshOptions& options, const std::string& host,
                                     const std::string& command);

/// argv for `--launch-agent 'CMD {host}'`: /bin/sh runs CMD with each {host} replaced by the quoted
/// host and `command` as one more argument. Pure.
std::vector<std::string> LaunchAgentArgv(const std::string& pattern, const std::string& host,
                                         const std::string& command);

/// ssh's exit code when it failed itself. It passes on all codes of the command, this one, too.
inline constexpr int kSshFailed = 255;

/// Maps the lines that ssh printed before it failed to a typed error: unknown host, refused,
/// timeout, unreachable, busy, host key, authentication. `how`: the end of the process. `proxy`:
/// the ProxyCommand or ProxyJump that it went through, as in OpensshOptions. Pure.
Status ExplainOpenssh(const Status& how, const std::vector<std::string>& lines,
                      const std::string& proxy);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_COMMAND_SHELL_H_
