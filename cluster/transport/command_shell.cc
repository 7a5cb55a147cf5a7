// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/command_shell.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cluster/transport/agent_bootstrap.h"

namespace hvdray {
namespace {

class CommandShell : public RemoteShell {
 public:
  CommandShell(Loop& loop, std::string name, ShellArgv argv, RemoteStderr& errors, ChildEnd end,
               ExplainEnd explain)
      : loop_(loop),
        name_(std::move(name)),
        argv_(std::move(argv)),
        errors_(errors),
        explain_(std::move(explain)),
        ender_(end == ChildEnd::kDropped ? std::make_shared<ChildEnder>(loop) : nullptr) {}

  ~CommandShell() override { Close(); }

  void Run(const std::string& host, const std::string& command,
           std::function<void(Result<AgentStart>)> done) override {
    const auto on_stderr = [&errors = errors_, host](const std::string& line) {
      errors.OnLine(host, line);
    };
    StartChild(loop_, name_, argv_(host, command), on_stderr, std::move(done), ender_);
  }

  Status Explain(const std::string& host, const Status& how,
                 const std::vector<std::string>& lines) const override {
    return explain_ ? explain_(how, lines) : RemoteShell::Explain(host, how, lines);
  }

  void Close() final {
    if (ender_ != nullptr) ender_->Close();
  }

 private:
  Loop& loop_;
  const std::string name_;
  const ShellArgv argv_;
  RemoteStderr& errors_;
  const ExplainEnd explain_;
  const std::shared_ptr<ChildEnder> ender_;  // null: children end by themselves
};

}  // namespace

std::unique_ptr<RemoteShell> MakeCommandShell(Loop& loop, std::string name, ShellArgv argv,
                                              RemoteStderr& errors, ChildEnd end,
                                              ExplainEnd explain) {
  return std::make_unique<CommandShell>(loop, std::move(name), std::move(argv), errors, end,
                                        std::move(explain));
}

std::vector<std::string> OpensshWords(const OpensshOptions& options) {
  std::vector<std::string> argv = {options.program, options.has_terminal ? "-tt" : "-T", "-a",
                                   "-x"};
  const auto set = [&argv](std::string text) {
    argv.emplace_back("-o");
    argv.push_back(std::move(text));
  };
  if (!options.has_terminal) argv.insert(argv.end(), {"-e", "none"});
  if (!options.config_file.empty()) argv.insert(argv.end(), {"-F", options.config_file});
  if (!options.log_file.empty()) argv.insert(argv.end(), {"-E", options.log_file});
  set(options.may_ask ? "BatchMode=no" : "BatchMode=yes");
  set("LogLevel=ERROR");
  // The session is ours alone, whatever the user's configuration makes of one.
  for (const char* off :
       {"ControlMaster=no", "PermitLocalCommand=no", "Tunnel=no", "ConnectionAttempts=1"}) {
    set(off);
  }
  // Of a master that the user has, which may have asked for a second factor, only sessions are
  // taken: it would keep a forward after our end.
  if (!options.local_forwards.empty()) set("ControlPath=none");
  for (const std::string& option : options.session_options) set(option);
  if (options.local_forwards.empty()) {
    set("ClearAllForwardings=yes");
  } else {
    // ClearAllForwardings would clear these, too. The configuration's own may fail: their ports are
    // taken while another ssh to that host runs.
    set(options.has_own_forwards ? "ExitOnForwardFailure=no" : "ExitOnForwardFailure=yes");
    for (const std::string& forward : options.local_forwards) {
      argv.insert(argv.end(), {"-L", forward});
    }
  }
  set(options.has_terminal ? "RequestTTY=force" : "RequestTTY=no");
  set("Compression=no");
  set("ServerAliveInterval=15");
  set("ServerAliveCountMax=3");
  if (options.connect_timeout_s > 0)
    set(fmt::format("ConnectTimeout={}", options.connect_timeout_s));
  if (!options.strict_host_key_checking.empty()) {
    set("StrictHostKeyChecking=" + options.strict_host_key_checking);
  }
  if (!options.host_key_alias.empty()) {
    set("HostKeyAlias=" + options.host_key_alias);
    set("CheckHostIP=no");  // or the address would be looked up as well
  }
  if (!options.proxy_command.empty()) set("ProxyCommand=" + options.proxy_command);
  if (options.port != 0) argv.insert(argv.end(), {"-p", std::to_string(options.port)});
  if (!options.identity_file.empty()) argv.insert(argv.end(), {"-i", options.identity_file});
  if (!options.user.empty()) argv.insert(argv.end(), {"-l", options.user});
  return argv;
}

std::vector<std::string> OpensshArgv(const OpensshOptions& options, const std::string& host,
                                     const std::string& command) {
  std::vector<std::string> argv = OpensshWords(options);
  argv.insert(argv.end(), {"--", host});
  if (!command.empty()) argv.push_back(command);
  return argv;
}

std::vector<std::string> LaunchAgentArgv(const std::string& pattern, const std::string& host,
                                         const std::string& command) {
  constexpr std::string_view kPlace = "{host}";
  std::string text = pattern;
  const std::string quoted = ShellQuoted(host);
  for (size_t at = text.find(kPlace); at != std::string::npos; at = text.find(kPlace, at)) {
    text.replace(at, kPlace.size(), quoted);
    at += quoted.size();
  }
  return TiedShell(text + " \"$@\"", {command});
}

namespace {

/// What one of ssh's messages means.
struct SshMessage {
  std::string_view sign;
  ErrorCode code;
  std::string_view hint;
  std::string_view message = {};  // instead of ssh's line
};

constexpr std::string_view kBusy =
    "sshd there may be full (its MaxStartups) or still starting; HVDRAY_SSH_CONNECTIONS=8 connects "
    "to fewer hosts at once";
constexpr SshMessage kSshMessages[] = {
    {"Could not resolve hostname", ErrorCode::kUnknownHost, "check the spelling, DNS, /etc/hosts"},
    {kHostKeyChanged, ErrorCode::kHostKeyRejected,
     "if the host was reinstalled, remove its old key with ssh-keygen -R; otherwise this may be "
     "an attack",
     "its host key is not the one in known_hosts"},
    {"Host key verification failed", ErrorCode::kHostKeyRejected,
     "if the host was reinstalled, remove its old key with ssh-keygen -R; if it is new: "
     "--strict-host-key-checking accept-new"},
    {" are too open.", ErrorCode::kAuthenticationFailed,
     "chmod 600 the private key: ssh does not use one that others may read"},
    {"Permission denied (", ErrorCode::kAuthenticationFailed,
     "try ssh by hand; name the key with -i, or load it into ssh-agent"},
    {"Too many authentication failures", ErrorCode::kAuthenticationFailed, "name the key with -i"},
    {"Connection refused", ErrorCode::kHostRefused,
     "check that sshd runs there, and on which port"},
    {"timed out", ErrorCode::kConnectTimeout, "check that the host is up, and for a firewall"},
    {"No route to host", ErrorCode::kHostUnreachable, "check the address and the network"},
    {"Network is unreachable", ErrorCode::kHostUnreachable, "check the address and the network"},
    {"Unable to negotiate with ", ErrorCode::kHandshakeFailed,
     "name one that both have in ~/.ssh/config (Ciphers, MACs, KexAlgorithms, HostKeyAlgorithms)"},
    {"stdio forwarding failed", ErrorCode::kHostRefused, "the jump host refused to forward"},
    {"banner line", ErrorCode::kHostRefused, "something other than sshd listens on that port"},
    {"client_loop: ", ErrorCode::kAgentLost, "the connection broke; check the network"},
    {"exchange_identification", ErrorCode::kHostBusy, kBusy},
    {"banner exchange: Connection", ErrorCode::kHostBusy, kBusy},
    {"Connection closed by", ErrorCode::kHostBusy, kBusy},
    {"Connection reset by", ErrorCode::kHostBusy, kBusy},
    {"bind [", ErrorCode::kAddressInUse,
     "it is a port of this machine: forward another one, --port-forward LOCAL:REMOTE"},
};

/// The last line that is not ssh's own: what a proxy said. Empty: nothing.
std::string WordsOfProxy(const std::vector<std::string>& lines) {
  static constexpr std::string_view kOwn[] = {"Warning: Permanently added",
                                              "** ",
                                              "debug1: ",
                                              "Killed by signal",
                                              "Disconnected from ",
                                              "Connection to ",
                                              "rsync: ",
                                              "rsync error: "};
  const auto is_own = [](const std::string& line) {
    const auto has = [&line](const SshMessage& known) {
      return line.find(known.sign) != std::string::npos;
    };
    return std::ranges::any_of(kSshMessages, has) ||
           std::ranges::any_of(kOwn, [&line](auto start) { return line.starts_with(start); });
  };
  const auto found = std::find_if_not(lines.rbegin(), lines.rend(), is_own);
  return found == lines.rend() ? std::string() : *found;
}

/// The connection closed before sshd had said anything.
Status ExplainProxy(const std::vector<std::string>& lines, const std::string& proxy) {
  const std::string words = WordsOfProxy(lines);
  if (!words.empty()) {
    return {ErrorCode::kHostUnreachable, fmt::format("{}: {}", proxy, words),
            "ssh runs it to reach the host: try it by hand"};
  }
  return {ErrorCode::kHostBusy,
          fmt::format("{}: the connection through it closed before sshd had answered", proxy),
          "try it by hand; or sshd behind it may be full (its MaxStartups): "
          "HVDRAY_SSH_CONNECTIONS=8 connects to fewer hosts at once"};
}

}  // namespace

Status ExplainOpenssh(const Status& how, const std::vector<std::string>& lines,
                      const std::string& proxy) {
  for (const SshMessage& known : kSshMessages) {
    const auto line = std::find_if(lines.rbegin(), lines.rend(), [&known](const std::string& text) {
      return text.find(known.sign) != std::string::npos;
    });
    if (line == lines.rend()) continue;
    if (known.code == ErrorCode::kHostBusy && !proxy.empty()) return ExplainProxy(lines, proxy);
    return Status(known.code,
                  std::string(known.message.empty() ? WithoutSource(*line) : known.message),
                  std::string(known.hint));
  }
  // Where a proxy ends before ssh has written its banner, ssh says so at a level that we don't ask
  // for. What begins with the proxy's program is no word of the host's.
  constexpr std::string_view kCommand = "ProxyCommand ";
  if (proxy.starts_with(kCommand) && !lines.empty()) {
    const std::string program =
        proxy.substr(kCommand.size(), proxy.find(' ', kCommand.size()) - kCommand.size());
    if (lines.back().find(program + ": ") != std::string::npos) return ExplainProxy(lines, proxy);
  }
  const std::string last = lines.empty() ? "" : fmt::format(": {}", WithoutSource(lines.back()));
  return {ErrorCode::kAgentStartFailed, how.message() + last,
          proxy.empty() ? std::string("try ssh by hand")
                        : fmt::format("try ssh by hand; it goes through {}", proxy)};
}

}  // namespace hvdray
