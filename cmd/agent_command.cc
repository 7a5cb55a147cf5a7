// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "agent/agent_main.h"
#include "base/exec.h"
#include "cmd/commands.h"

namespace hvdray {

int AgentCommand(const CommandLine& line) {
  std::vector<std::string> words = {"hvdray-agent"};
  words.insert(words.end(), line.args.begin(), line.args.end());
  return AgentMain(static_cast<int>(words.size()), ExecArray(words).data());
}

}  // namespace hvdray
