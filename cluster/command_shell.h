// Remote shells that are programs: the system's ssh, or whatever --launch-agent names.
#ifndef HVDRAY_CLUSTER_COMMAND_SHELL_H_
#define HVDRAY_CLUSTER_COMMAND_SHELL_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/remote_shell.h"
#include "cluster/remote_stderr.h"

namespace hvdray {

struct CommandShellOptions {
  /// argv that has `command` run on `host`.
  std::function<std::vector<std::string>(const std::string& host, const std::string& command)> argv;
  std::string name;                ///< In messages: "ssh".
  RemoteStderr* errors = nullptr;  ///< Outlives the shell.
};

/// One child a host. `done` is called when the child runs: whether it got through is learnt from
/// what it says and how it ends. The loop outlives the shell.
std::unique_ptr<RemoteShell> MakeCommandShell(Loop& loop, CommandShellOptions options);

/// How the system's ssh is called. Settings that are not given are ssh's own (its config files).
struct OpensshOptions {
  std::string program = "ssh";
  std::string user;
  int port = 0;                          ///< 0: ssh's own.
  std::string identity_file;             ///< Empty: ssh's own.
  std::string proxy_command;             ///< Empty: ssh's own.
  std::string strict_host_key_checking;  ///< yes, accept-new or no.
  std::string config_file;               ///< Empty: ssh's own.
  int connect_timeout_s = 30;
  std::string local_forward;  ///< As behind ssh's -L. Empty: none.
};

/// No terminal, no question, no forwarding but the one asked for, no compression; ServerAlive finds
/// a dead peer even while the agent's own heartbeat is silent.
std::vector<std::string> OpensshArgv(const OpensshOptions& options, const std::string& host,
                                     const std::string& command);

/// `--launch-agent 'CMD {host}'`: CMD by /bin/sh with {host} replaced (quoted) and the command line
/// as one more word behind it. Pure.
std::vector<std::string> LaunchAgentArgv(const std::string& pattern, const std::string& host,
                                         const std::string& command);

/// From what ssh printed before it ended to a typed error: unknown host, refused, timeout,
/// unreachable, busy, host key, authentication. `how`: how it ended. Pure.
Status ExplainOpenssh(const Status& how, const std::vector<std::string>& lines);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_COMMAND_SHELL_H_
