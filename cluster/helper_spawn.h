// Starts a program that the launcher itself needs: an agent, ssh, a script. In a session of its own
// with default signals, so that the terminal's signals reach us alone.
#ifndef HVDRAY_CLUSTER_HELPER_SPAWN_H_
#define HVDRAY_CLUSTER_HELPER_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace hvdray {

/// Descriptors that become its stdin, stdout and stderr; they stay the caller's. err -1: ours.
struct HelperStreams {
  int in = -1;
  int out = -1;
  int err = -1;
};

/// The caller reaps it. It leads a process group, whose number is `pid` until then.
struct Helper {
  pid_t pid = -1;
  UniqueFd pidfd;  ///< Readable once it has ended.
};

/// command: argv; the first word is looked up in PATH unless it holds a slash. No other descriptor
/// of ours is open in it. Errors: kAgentStartFailed when it can't be executed, kOutOfResources,
/// kSystem; then nothing runs.
Result<Helper> SpawnHelper(const std::vector<std::string>& command, const HelperStreams& streams);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_HELPER_SPAWN_H_
