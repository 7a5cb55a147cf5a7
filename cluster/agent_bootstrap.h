// SPDX-License-Identifier: Apache-2.0
// The dialogue with the shell of another host until the agent runs there. Pure. docs/ssh.md, "What
// is copied and left".
#ifndef HVDRAY_CLUSTER_AGENT_BOOTSTRAP_H_
#define HVDRAY_CLUSTER_AGENT_BOOTSTRAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.h"

namespace hvdray {

/// What BootstrapCommand() needs to know.
struct BootstrapRequest {
  /// Names the staged file. AgentBuilds::stage_id(), so it changes with the bytes of any build.
  std::string stage_id;
  /// Staged agents are kept in its subdirectory hvdray-agents-UID; empty: in
  /// ${XDG_CACHE_HOME:-$HOME/.cache}/hvdray/agents-UID.
  std::string directory;
  /// Executed in place of a staged agent where the host has it, unless a user other than the
  /// login's own and root could have put it there; empty: none.
  std::string installed_path;
  std::vector<std::string> agent_arguments;
};

/// One line for the host's login shell (valid in sh, bash, zsh, csh, tcsh and fish). It becomes the
/// agent if the host has it; otherwise it prints one of:
///   HVDRAY-STAGE/1 SYSTEM MACHINE DIRECTORY     and then reads StageAnswer() from stdin
///   HVDRAY-FAILED/1 TEXT                     the host can't take the agent
/// Writes the file under a unique name, compares its hash, then renames it, so that concurrent runs
/// don't collide. Removes staged agents that were not used for 30 days. Executes only a file that
/// belongs to the user, in the user's own directory that nobody else may write. Passes
/// `--directory` with the directory that the shell started in to the agent.
std::string BootstrapCommand(const BootstrapRequest& request);

/// Header of the upload. The gzip stream, `compressed_bytes` long, must follow it immediately.
/// `sha256`: of the uncompressed file, in hex.
std::string StageAnswer(std::string_view sha256, size_t compressed_bytes);

/// The word in single quotes, for any of the login shells above.
std::string ShellQuoted(std::string_view word);

namespace bootstrap {
/// Any other line: a banner, or output of the shell's start-up files.
struct Noise {};
/// The host doesn't have the agent and asks for it.
struct NeedsAgent {
  std::string system;     ///< uname -s
  std::string machine;    ///< uname -m
  std::string directory;  ///< Where the agent will be staged; for messages.
};
/// The host can't take the agent.
struct Failed {
  std::string why;
};
/// The agent's announcement. This line and all that follows come from the agent.
struct AgentSpeaks {};
}  // namespace bootstrap
/// What a line of the shell means.
using BootstrapLine = std::variant<bootstrap::Noise, bootstrap::NeedsAgent, bootstrap::Failed,
                                   bootstrap::AgentSpeaks>;

/// Parses a line without its newline; texts for the user pass through ShownLine(). A start-up file
/// may have printed text without a newline before one of our marks.
BootstrapLine ParseBootstrapLine(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_AGENT_BOOTSTRAP_H_
