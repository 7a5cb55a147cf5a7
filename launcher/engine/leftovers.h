// SPDX-License-Identifier: Apache-2.0
// Cleans up after the agent of this machine: if agent and keeper were both killed, nothing else
// kills their orphans, and a stopped agent (SIGSTOP) never exits by itself.
#ifndef HVDRAY_LAUNCHER_ENGINE_LEFTOVERS_H_
#define HVDRAY_LAUNCHER_ENGINE_LEFTOVERS_H_

#include <cstdint>
#include <string>

namespace hvdray {

/// Kills that agent if it still runs below this process, and the orphans of its workers on this
/// machine: the members of its cgroup, which is removed, and processes that were started with the
/// job's id in their environment. Call when the job no longer needs any worker on this machine.
/// Blocks for some milliseconds; for seconds if the kernel takes so long to end a large process, or
/// can't. Returns the number of killed orphans found by environment.
int EndLeftovers(const std::string& job_id, uint32_t agent_pid);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_LEFTOVERS_H_
