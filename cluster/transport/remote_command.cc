// SPDX-License-Identifier: Apache-2.0
// Two scripts for /bin/sh, each in one line because csh quotes no newline: one runs a text in a
// login bash, the other ends a command whose connection is gone.
#include "cluster/transport/remote_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <optional>

#include "base/text.h"
#include "cluster/transport/agent_bootstrap.h"
#include "cluster/transport/scripts.h"

namespace hvdray {
namespace {

// What ~/.bashrc sets counts, as for `ray up` and `ray exec`: a login bash does not read it by
// itself, and past its usual guard it goes only if it is interactive. Without a terminal bash then
// complains, and start-up files may print or read: they get /dev/null, the text gets descriptors 3
// to 5. The subshell keeps bash from printing "logout". A start-up file may end the shell, or be
// another one from there on (`exec zsh`): nobody would know that the text never ran, but for the
// signal that bash sends before it. An interactive bash whose command ends by
// Ctrl-C ends with 1, unless it is told otherwise; one whose command is stopped by Ctrl-Z ends, and
// the command with it, so that key does nothing, as in ssh's own sessions.
constexpr std::string_view kQuietLogin =
    R"sh(command -v bash >/dev/null 2>&1 || exec sh -c "$1"; b=; trap b=1 USR1; )sh"
    R"sh(bash --login -i -c '[ -f ~/.bashrc ] && . ~/.bashrc; kill -USR1 $PPID; )sh"
    R"sh((exec 0<&5 1>&4 2>&3 3>&- 4>&- 5<&-; eval "$1")' hvdray "$1" )sh"
    R"sh(3>&2 4>&1 5<&0 </dev/null >/dev/null 2>&1; s=$?; [ -n "$b" ] && exit $s; )sh"
    R"sh(echo "hvdray: $(uname -n): a start-up file of bash ended it (exit, exec) before the )sh"
    R"sh(command, which did not run: see ~/.bash_profile, ~/.profile, ~/.bashrc" >&2; exit 125)sh";
constexpr std::string_view kTerminalLogin =
    R"sh(command -v bash >/dev/null 2>&1 || exec sh -c "$1"; )sh"
    R"sh(exec bash --login -i -c '[ -f ~/.bashrc ] && . ~/.bashrc; trap "exit 130" INT; trap "" TSTP; )sh"
    R"sh((eval "$1")' hvdray "$1")sh";

// It leads a session, by sshd or RunInOwnSession(), so $$ is the group of all that runs here. It
// ends the guard when the command is over; when it is killed, the guard ends the group. The guard
// holds no descriptor of the connection, or ssh would wait for it.
constexpr std::string_view kGuardedRun =
    R"sh(p=$PPID; t=$$; (while kill -0 $p && kill -0 $t; do sleep 1; done; )sh"
    R"sh(trap "" TERM; kill -TERM -$t; sleep 5; kill -KILL -$t) </dev/null >/dev/null 2>&1 & g=$!; )sh"
    R"sh("$@"; s=$?; kill $g 2>/dev/null; exit $s)sh";

std::optional<uint16_t> PortOf(std::string_view text) {
  const std::optional<uint16_t> port = ParseInteger<uint16_t>(text);
  return port == 0 ? std::nullopt : port;
}

}  // namespace

std::vector<std::string> LoginArgv(const RemoteCommand& command) {
  std::vector<std::string> argv;
  if (!command.container.empty()) {
    argv = {command.container_program, "exec", command.has_terminal ? "-it" : "-i",
            command.container};
  }
  const std::string_view script = command.has_terminal ? kTerminalLogin : kQuietLogin;
  argv.insert(argv.end(), {"/bin/sh", "-c", std::string(script), "hvdray", command.text});
  return argv;
}

std::vector<std::string> GuardedArgv(const RemoteCommand& command) {
  std::vector<std::string> argv = LoginArgv(command);
  argv.insert(argv.begin(), {"/bin/sh", "-c", std::string(kGuardedRun), "hvdray"});
  return argv;
}

std::string LoginLine(const RemoteCommand& command) {
  return "exec " + QuotedWords(command.has_terminal ? LoginArgv(command) : GuardedArgv(command));
}

std::string TextForRay(std::string_view cluster, std::string_view text) {
  const std::string name = ShellQuoted(cluster);
  return fmt::format(
      "if [ -r ~/.hvdray/clusters/{0}/token ]; then export RAY_AUTH_MODE=${{RAY_AUTH_MODE:-token}} "
      "RAY_AUTH_TOKEN_PATH=~/.hvdray/clusters/{0}/token; fi; "
      "if [ -z \"$RAY_ADDRESS$RAY_API_SERVER_ADDRESS\" ]; then "
      "for ray in $(cluster={0}; {1}; {2}); do export \"$ray\"; done; unset ray; fi; {3}",
      name, ListeningPortScript(), FindRayScript(), text);
}

std::string KeptText(TerminalKeeper keeper, std::string_view text) {
  const std::string shown = ShellQuoted(fmt::format("{}\nexec bash", text));
  return keeper == TerminalKeeper::kTmux ? "tmux new-session -d bash -c " + shown
                                         : "screen -L -dm bash -c " + shown;
}

std::string AttachText(TerminalKeeper keeper, bool is_new) {
  if (keeper == TerminalKeeper::kTmux) {
    return is_new ? "tmux new-session" : "tmux attach-session 2>/dev/null || tmux new-session";
  }
  return is_new ? "screen -L" : "screen -xRR";
}

std::string QuotedWords(std::span<const std::string> words) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : " ") + ShellQuoted(word);
  }
  return text;
}

std::string TypedWord(const std::string& word) {
  const bool is_plain = std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("/._-+:@%,=").find(c) != std::string_view::npos;
  });
  return is_plain && !word.empty() ? word : ShellQuoted(word);
}

Result<std::string> LocalForward(std::string_view ports) {
  const size_t colon = ports.find(':');
  const std::optional<uint16_t> here = PortOf(ports.substr(0, colon));
  const std::optional<uint16_t> there =
      colon == std::string_view::npos ? here : PortOf(ports.substr(colon + 1));
  if (here && there) return fmt::format("127.0.0.1:{}:127.0.0.1:{}", *here, *there);
  return Status(ErrorCode::kUsage,
                fmt::format("must be PORT or LOCAL:REMOTE, not '{}'", ShownText(ports)));
}

}  // namespace hvdray
