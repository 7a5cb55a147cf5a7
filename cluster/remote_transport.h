// SPDX-License-Identifier: Apache-2.0
// Agents on other hosts. Runs a remote shell that becomes the agent; copies the agent there first
// when the host doesn't have it.
#ifndef HVDRAY_CLUSTER_REMOTE_TRANSPORT_H_
#define HVDRAY_CLUSTER_REMOTE_TRANSPORT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/blocking_pool.h"
#include "base/loop.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/agent_bootstrap.h"
#include "cluster/agent_builds.h"
#include "cluster/transport.h"

namespace hvdray {

// Runs one command line on a host through any kind of remote shell: an SSH library, the system's
// ssh, another program. Knows nothing about the command's purpose.

/// Opens connections to hosts and runs commands there. Threads: the loop's.
class RemoteShell {
 public:
  virtual ~RemoteShell() = default;
  /// Has the login shell of `host` run `command` (one line of POSIX sh) without a terminal. The
  /// stream is its stdin and stdout; the implementation passes its stderr on, line by line. Closing
  /// the stream closes the connection. Calls `done` once, when the connection is up and the command
  /// has been sent.
  /// Errors: kAgentStartFailed and those of the connection; kHostBusy: a retry may succeed. They
  /// name the stage; the caller adds the host.
  /// The process of AgentStart ends with the command: ok for exit code 0.
  virtual void Run(const std::string& host, const std::string& command,
                   std::function<void(Result<AgentStart>)> done) = 0;
  /// Why a command on `host` ended before it did its part: `how` it ended, and the last lines of
  /// its stderr. kHostBusy: a retry may succeed. By itself, a shell blames what ran on the host.
  virtual Status Explain(const std::string& host, const Status& how,
                         const std::vector<std::string>& lines) const;
  /// Ends the commands that nobody holds any more and that would not end by themselves. Blocks for
  /// a moment at most. Only the destructor may follow; who waits for a start may still be answered.
  virtual void Close() {}
};

/// Runs commands by `first`, and by `second` where `first` answers kNotSupported. All other errors
/// are final. Both outlive the shell.
std::unique_ptr<RemoteShell> MakeFallbackShell(RemoteShell& first, RemoteShell& second);

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

// The stderr of remote shells: the reason when an agent doesn't start, log lines for the user once
// it runs.

/// Collects stderr lines by host. Threads: the loop's.
class RemoteStderr {
 public:
  /// Logs and keeps one line. It passes through ShownLine(), since errors and logs quote it.
  void OnLine(const std::string& host, std::string_view said);
  /// From now on the host's lines are logged as warnings; before, only with --verbose.
  void MarkRunning(const std::string& host) { running_.insert(host); }
  /// Drops the lines of a failed try before the host is retried.
  void Forget(const std::string& host) { lines_.erase(host); }
  /// The last few lines that the host wrote before MarkRunning().
  std::vector<std::string> LinesOf(const std::string& host) const;

 private:
  std::map<std::string, std::deque<std::string>> lines_;
  std::set<std::string> running_;
};

/// How MakeRemoteTransport() starts agents.
struct RemoteTransportOptions {
  AgentBuilds builds;
  std::string directory;       ///< --remote-dir; empty: see BootstrapRequest.
  std::string installed_path;  ///< See BootstrapRequest.
  std::vector<std::string> agent_arguments;
  int max_starting = 32;  ///< Hosts that start at once, from shell to agent; the others wait.
  /// For shells that fail with kHostBusy before anything on the host has answered.
  RetryPolicy retry;
};

/// shell, errors, pool and loop outlive the transport. Errors of Start(): those of the shell's
/// Explain(); kAgentStartFailed when the host can't take the agent; kProtocolError for a shell that
/// never stops printing or asks for the agent twice. Each names the host.
std::unique_ptr<Transport> MakeRemoteTransport(Loop& loop, BlockingPool& pool, RemoteShell& shell,
                                               RemoteStderr& errors,
                                               RemoteTransportOptions options);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_REMOTE_TRANSPORT_H_
