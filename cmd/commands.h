// SPDX-License-Identifier: Apache-2.0
// The commands of hvdray, one file each. All return an exit code of docs/errors.md.
#ifndef HVDRAY_CMD_COMMANDS_H_
#define HVDRAY_CMD_COMMANDS_H_

#include <span>
#include <string>

#include "base/types.h"

namespace hvdray {

/// What every command is given: its words (without its own name) and when hvdray was called.
struct CommandLine {
  std::span<const std::string> args;
  TimePoint began{};
  bool is_horovodrun = false;  ///< Called under that name: `run`, with horovodrun's own habits.
};

int RunCommand(const CommandLine& line);
int CheckCommand(const CommandLine& line);
int ReplayCommand(const CommandLine& line);
int StatusCommand(const CommandLine& line);
int JobsCommand(const CommandLine& line);
int SlotsCommand(const CommandLine& line);
int FollowCommand(const CommandLine& line);
int ExplainCommand(const CommandLine& line);
int AgentCommand(const CommandLine& line);

/// "hvdray 0.1.0 (abc1234)"
std::string BuildName();
/// What --version prints: BuildName() and the libraries that it was built with.
std::string VersionText();
/// What -cb prints: which frameworks, controllers and operations there are, for the Horovod of the
/// python3 of PATH. Blocks for as long as that takes to answer, 10 s at most.
std::string BuildTable();
/// What `horovodrun --version` prints: Horovod's version if the python3 of PATH has one, then ours.
std::string HorovodrunVersion();

}  // namespace hvdray

#endif  // HVDRAY_CMD_COMMANDS_H_
