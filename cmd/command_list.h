// SPDX-License-Identifier: Apache-2.0
// The commands of hvdray by name, and what is read about all of them at once. Pure.
#ifndef HVDRAY_CMD_COMMAND_LIST_H_
#define HVDRAY_CMD_COMMAND_LIST_H_

#include <array>
#include <string>
#include <string_view>

namespace hvdray {

struct CommandName {
  std::string_view name;
  std::string_view summary;
};

/// In the order of help.
inline constexpr std::array<CommandName, 10> kCommandNames = {{
    {"run", "start a command on many slots and report what happened"},
    {"check", "say whether a job would start, and what its hosts are like"},
    {"replay", "run an elastic job's recording again and check its rules"},
    {"follow", "follow a job on Ray that was submitted before, or stop it"},
    {"status", "what a Ray cluster has, and what of it is in use"},
    {"jobs", "the jobs of hvdray on a Ray cluster, and how they are"},
    {"slots", "how many slots a job could get from a Ray cluster now"},
    {"rendezvous", "serve Horovod's rendezvous for workers started otherwise"},
    {"explain", "what an error means and what to do about it, by its number"},
    {"agent", "the per-host side of run; hvdray starts it itself"},
}};

/// hvdray --help.
std::string OverviewHelp();
/// hvdray(1).
std::string OverviewManPage();

}  // namespace hvdray

#endif  // HVDRAY_CMD_COMMAND_LIST_H_
