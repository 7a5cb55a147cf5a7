// SPDX-License-Identifier: Apache-2.0
// The command line of hvdray-agent. hvdray and its actor on a Ray node write it, so it has none of
// the comforts of hvdray's own: no abbreviations, no suggestions. Pure. Threads: any.
#ifndef HVDRAY_AGENT_AGENT_ARGUMENTS_H_
#define HVDRAY_AGENT_AGENT_ARGUMENTS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "agent/dialled_agent.h"
#include "base/result.h"

namespace hvdray {

/// What one call of hvdray-agent is for.
enum class AgentTask : uint8_t {
  kServe,  ///< To be the agent of the launcher at the other end of stdin and stdout.
  kDial,   ///< --dial: to be the agent of a driver that it connects to.
  kLeave,  ///< --leave: to tell the agents of this host that it goes away.
  kHelp,
  kVersion,
};

struct AgentArguments {
  AgentTask task = AgentTask::kServe;
  std::string directory;            ///< --folder: where to start. Empty: where we are.
  bool has_probe_listener = false;  ///< --probe-listener: as in AgentSessionOptions.
  bool keeps_processes = false;     ///< --keep-processes: as in AgentSessionOptions.
  std::string leave_in;             ///< The seconds after --leave, unchecked. Empty: not given.
  DialOptions dial;                 ///< For kDial; has_probe_listener is set there, too.
};

/// Parses `words`, all arguments after the program's name, as `--name value` or `--name=value`.
/// --help, --version and --leave end the line: what follows them is not looked at.
/// Errors: kUsage, with the word.
Result<AgentArguments> ParseAgentArguments(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_ARGUMENTS_H_
