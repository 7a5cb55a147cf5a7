// SPDX-License-Identifier: Apache-2.0
// Command lines for another host's login shell that run a command as the user's own login there
// would: with what ~/.profile and ~/.bashrc set, but without what they print. Pure.
#ifndef HVDRAY_CLUSTER_TRANSPORT_REMOTE_COMMAND_H_
#define HVDRAY_CLUSTER_TRANSPORT_REMOTE_COMMAND_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// What keeps a command's terminal when the connection ends.
enum class TerminalKeeper : uint8_t { kNone, kTmux, kScreen };

/// A command and how to run it there.
struct RemoteCommand {
  std::string text;           ///< Shell text, for bash; for sh where there is no bash.
  bool has_terminal = false;  ///< Of the connection.
  std::string container;      ///< Runs in this running container; empty: on the host itself.
  std::string container_program = "docker";
};

/// argv on the host. Passes input, output and the exit code through; with a terminal bash is
/// interactive. Functions and aliases of ~/.bashrc exist, as with `ray exec`.
std::vector<std::string> LoginArgv(const RemoteCommand& command);

/// LoginArgv() for a process that leads a session without a terminal. When its parent ends before
/// the command, the command's process group gets SIGTERM within a second or two, and SIGKILL 5 s
/// later: sshd itself would leave it running.
std::vector<std::string> GuardedArgv(const RemoteCommand& command);

/// As one line for the host's login shell (sh, bash, zsh, csh, tcsh or fish): guarded, unless it
/// has a terminal, which hangs up.
std::string LoginLine(const RemoteCommand& command);

/// `text` with token and addresses of the Ray that `hvdray up` started for `cluster`, as far as
/// they are there and the login has set no others: Ray's own programs take the token from their
/// environment alone, and without an address the Ray that was started last on the machine.
std::string TextForRay(std::string_view cluster, std::string_view text);

/// Shell text that runs `text` in a new window of `keeper` (not kNone) and returns at once. The
/// window stays open after `text` has ended.
std::string KeptText(TerminalKeeper keeper, std::string_view text);

/// Shell text that shows the user's window of `keeper` (not kNone), or a new one if there is none
/// or `is_new`.
std::string AttachText(TerminalKeeper keeper, bool is_new);

/// The words as shell text; each stays one word, whatever is in it.
std::string QuotedWords(std::span<const std::string> words);
/// The word for a command that the user is told to type: quoted only where a shell needs that.
std::string TypedWord(const std::string& word);

/// The argument of ssh's -L for "8265" (the same port on both sides) or "9000:8265" (here:there).
/// Both ends are on loopback. Errors: kUsage with half a sentence.
Result<std::string> LocalForward(std::string_view ports);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_REMOTE_COMMAND_H_
