// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "agent/agent_run.h"
#include "cmd/commands.h"

namespace hvdray {

int AgentCommand(const CommandLine& line) {
  std::vector<std::string> words = {"hvdray-agent"};
  words.insert(words.end(), line.args.begin(), line.args.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return AgentMain(static_cast<int>(words.size()), argv.data());
}

}  // namespace hvdray
