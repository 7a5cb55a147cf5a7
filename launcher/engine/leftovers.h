// When the agent of this machine and its keeper were both killed, nobody there sweeps behind them,
// and a stopped agent does not end by itself: the launcher sees to both.
#ifndef HVDRAY_LAUNCHER_ENGINE_LEFTOVERS_H_
#define HVDRAY_LAUNCHER_ENGINE_LEFTOVERS_H_

#include <cstdint>
#include <string>

namespace hvdray {

/// Kills that agent if it still lives below this process, and what is left on this machine of the
/// workers that it had started: the members of its cgroup, which is removed, and processes with the
/// job's id in the environment they were started with. To be called when no worker of the job on
/// this machine is wanted any more. Blocks for some milliseconds. Returns how many of the latter
/// were killed.
int EndLeftovers(const std::string& job_id, uint32_t agent_pid);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_LEFTOVERS_H_
