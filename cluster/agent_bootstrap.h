// What is said to the shell of another host, and what it answers, until the agent runs there. Pure.
#ifndef HVDRAY_CLUSTER_AGENT_BOOTSTRAP_H_
#define HVDRAY_CLUSTER_AGENT_BOOTSTRAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/types.h"

namespace hvdray {

struct BootstrapRequest {
  /// Names the staged file: changes with the bytes of any build that may be staged.
  std::string stage_id;
  /// Staged agents are kept in hvdray-agents-UID below it; empty: in
  /// ${XDG_CACHE_HOME:-$HOME/.cache}/hvdray/agents-UID.
  std::string folder;
  /// Executed as it is where the host has it, unless somebody else than its user and root could
  /// have put it there; empty: none.
  std::string installed_path;
  std::vector<std::string> agent_arguments;
};

/// One line for the login shell of the host (sh, bash, zsh, csh, tcsh and fish take it alike),
/// which becomes the agent if it is there and else asks for it:
///   HVDRAY-STAGE/1 SYSTEM MACHINE FOLDER     then StageAnswer() is read from stdin
///   HVDRAY-FAILED/1 TEXT                     the host can't take it
/// The file is written under a name of its own, its hash compared, then renamed, so that runs at
/// the same time do not meet; staged agents that nobody used for 30 days are removed on the way.
/// Only a file of the user's own, in a folder of the user's own that nobody else may write, is
/// executed. The agent is called with `--folder` and the folder that the shell started in.
std::string BootstrapCommand(const BootstrapRequest& request);

/// Header of the upload: the gzip stream of `compressed_bytes` follows it at once. `sha256` of the
/// file that comes out, in hex.
std::string StageAnswer(std::string_view sha256, size_t compressed_bytes);

/// The word in single quotes, for any of those shells.
std::string ShellQuoted(std::string_view word);

namespace bootstrap {
struct Noise {};  ///< A banner, a shell file: for people.
struct NeedsAgent {
  std::string system;   ///< uname -s
  std::string machine;  ///< uname -m
  std::string folder;
};
struct Failed {
  std::string why;
};
struct AgentSpeaks {};  ///< The agent's own announcement: from this line on all is its.
}  // namespace bootstrap
using BootstrapLine = std::variant<bootstrap::Noise, bootstrap::NeedsAgent, bootstrap::Failed,
                                   bootstrap::AgentSpeaks>;

/// A line without its end; what is for people in it comes out as ShownLine() has it. What a shell
/// file printed without a newline may stand before our marks.
BootstrapLine ParseBootstrapLine(std::string_view line);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_AGENT_BOOTSTRAP_H_
