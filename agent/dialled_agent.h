// SPDX-License-Identifier: Apache-2.0
// An agent on a Ray node: a child of an actor, it dials the job's driver. docs/protocol.md, "On
// Ray".
#ifndef HVDRAY_AGENT_DIALLED_AGENT_H_
#define HVDRAY_AGENT_DIALLED_AGENT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/tcp_address.h"
#include "base/types.h"

namespace hvdray {

/// The options of `hvdray-agent --dial`, which hvdray's actor on a Ray node starts;
/// agent_arguments.h reads them.
struct DialOptions {
  std::vector<TcpAddress> addresses;   ///< --dial: the driver's; the first that answers is used.
  int endpoint = -1;                   ///< --endpoint: the agent endpoint's number at the driver.
  std::vector<std::string> gpus;       ///< --gpus: for CUDA_VISIBLE_DEVICES. Empty: none known.
  std::string python;                  ///< --python: as in NodeShare.
  pid_t raylet = 0;                    ///< --raylet: its death ends the agent. 0: not watched.
  bool keeps_ray_environment = false;  ///< --keep-ray-env: workers keep RAY_* variables.
  bool has_probe_listener = false;     ///< --probe-listener: as in AgentSessionOptions.
  Duration limit = std::chrono::seconds(60);  ///< --dial-timeout
};

/// Runs the agent; blocks until the job is over. Reads the job's key, one line of 64 hexadecimal
/// digits, from stdin. Stdin must then stay open: when it, the link or the raylet ends, the agent
/// stops its workers with grace. The calling process becomes the front (see keeper.h). Returns the
/// exit code: 0, 125, 128+n after signal n. Call before starting threads.
int RunDialledAgent(const DialOptions& options);

/// Undoes what processes on Ray inherit and training processes should not: blocked signals, a low
/// soft limit on open files, niceness, and a raised out-of-memory score. Applies to this process
/// and its later children. Returns one line for each property that the system does not permit to
/// restore. Call before starting threads. Source: Ray 2.60 starts workers with niceness 15 and a
/// raised oom_score_adj; docs/ray.md, "Environment of a worker".
std::vector<std::string> RepairInheritedLimits();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_DIALLED_AGENT_H_
