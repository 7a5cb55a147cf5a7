// Agents on other hosts: a remote shell is asked for the agent, which is copied there when the host
// does not have it, and becomes it.
#ifndef HVDRAY_CLUSTER_REMOTE_TRANSPORT_H_
#define HVDRAY_CLUSTER_REMOTE_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "cluster/agent_bootstrap.h"
#include "cluster/agent_builds.h"
#include "cluster/remote_shell.h"
#include "cluster/remote_stderr.h"
#include "cluster/retry_pauses.h"

namespace hvdray {

struct RemoteTransportOptions {
  AgentBuilds builds;
  std::string folder;          ///< --remote-dir; empty: see BootstrapRequest.
  std::string installed_path;  ///< See BootstrapRequest.
  std::vector<std::string> agent_arguments;
  int max_starting = 32;  ///< Hosts between a shell and an agent at once; the others wait.
  /// For shells that fail with kHostBusy before anything on the host has answered.
  RetryPolicy retry;
  /// Makes an error of how the shell ended before an agent spoke, and of its last lines on stderr.
  /// kHostBusy is tried again.
  std::function<Status(const Status& how, const std::vector<std::string>& lines)> explain;
};

/// shell, errors, pool and loop outlive the transport. Start() fails with what `explain` says, with
/// kAgentStartFailed when the host can't take the agent, kProtocolError for a shell that never
/// stops printing or asks for the agent twice; each names the host.
std::unique_ptr<Transport> MakeRemoteTransport(Loop& loop, BlockingPool& pool, RemoteShell& shell,
                                               RemoteStderr& errors,
                                               RemoteTransportOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_REMOTE_TRANSPORT_H_
