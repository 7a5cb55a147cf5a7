// Runs a program of the host for what it prints. Blocks, so it is for child processes that gather
// facts (host_inspection.h), never for the agent's loop.
#ifndef HVDRAY_AGENT_ASKED_PROGRAM_H_
#define HVDRAY_AGENT_ASKED_PROGRAM_H_

#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

struct ProgramAnswer {
  int exit_code = 0;  ///< 128 + n after signal n.
  std::string text;   ///< stdout and stderr together, at most 64 KiB.
};

/// Where a program runs.
struct AskedPlace {
  std::string folder;                    ///< Empty: ours.
  std::vector<std::string> environment;  ///< "NAME=VALUE"; empty: ours.
};

/// `argv[0]` is a path. stdin is /dev/null. Errors: kDeadlineExceeded when it has not closed its
/// output within `limit` (it is killed, not waited for), those of spawning.
Result<ProgramAnswer> AskProgram(const std::vector<std::string>& argv, Duration limit,
                                 const AskedPlace& place = {});

}  // namespace hvdray

#endif  // HVDRAY_AGENT_ASKED_PROGRAM_H_
