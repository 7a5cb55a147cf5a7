// SPDX-License-Identifier: Apache-2.0
// Agents on other hosts. Runs a remote shell that becomes the agent; copies the agent there first
// when the host doesn't have it.
#ifndef HVDRAY_CLUSTER_TRANSPORT_REMOTE_TRANSPORT_H_
#define HVDRAY_CLUSTER_TRANSPORT_REMOTE_TRANSPORT_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "base/types.h"
#include "cluster/transport/agent_bootstrap.h"
#include "cluster/transport/agent_builds.h"
#include "cluster/transport/remote_shell.h"
#include "cluster/transport/transport.h"

namespace hvdray {

// How long to wait before retrying a busy host: longer each time, and randomly spread, so that
// hosts that were turned away together don't come back together. Pure.

/// When to retry a busy host, and how often.
struct RetryPolicy {
  int max_retries = 3;  ///< After the first try.
  Duration shortest = std::chrono::milliseconds(100);
  Duration longest = std::chrono::seconds(1);  ///< Not below `shortest`.
  uint64_t seed = 0;                           ///< Of the jitter.
};

/// The next pause of a host after `retries` retries, 0 <= retries < max_retries. Equal factors cut
/// the range from shortest to longest into one part per retry; the pause is drawn uniformly from
/// its part.
Duration RetryPause(const RetryPolicy& policy, int retries, std::mt19937_64& random);

/// How MakeRemoteTransport() starts agents.
struct RemoteTransportOptions {
  AgentBuilds builds;
  std::string directory;       ///< --remote-dir; empty: see BootstrapRequest.
  std::string installed_path;  ///< See BootstrapRequest.
  std::vector<std::string> agent_arguments;
  /// How long a login shell may take to run our command. Zero: for ever.
  Duration answer_limit = Duration::zero();
  int max_starting = 32;  ///< Hosts that start at once, from shell to agent; the others wait.
  /// For shells that fail with kHostBusy before anything on the host has answered.
  RetryPolicy retry;
};

/// shell, errors, pool and loop outlive the transport. Errors of Start(): those of the shell's
/// Explain(); kAgentStartFailed when the host can't take the agent; kConnectTimeout
/// for a shell that never runs our command; kProtocolError for a shell that
/// never stops printing or asks for the agent twice. Each names the host.
std::unique_ptr<Transport> MakeRemoteTransport(Loop& loop, BlockingPool& pool, RemoteShell& shell,
                                               RemoteStderr& errors,
                                               RemoteTransportOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_REMOTE_TRANSPORT_H_
