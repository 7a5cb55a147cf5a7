// SPDX-License-Identifier: Apache-2.0
// Runs one command line on a host through any kind of remote shell: an SSH library, the system's
// ssh, another program. Knows nothing about the command's purpose.
#ifndef HVDRAY_CLUSTER_TRANSPORT_REMOTE_SHELL_H_
#define HVDRAY_CLUSTER_TRANSPORT_REMOTE_SHELL_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "cluster/transport/transport.h"

namespace hvdray {

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

// The stderr of remote shells: the reason when an agent doesn't start, log lines for the user once
// it runs.

/// For a shell of `host` that does not do what it was told to.
std::string HintForSilence(std::string_view host);

/// ssh's line without the place in its source, which LogVerbose puts before it. Pure.
std::string_view WithoutSource(std::string_view line);

/// What ssh's line about a changed host key has in it.
inline constexpr std::string_view kHostKeyChanged = "HOST IDENTIFICATION HAS CHANGED";

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
  /// ssh has said so; see LogVerbose in job_ssh.cc.
  bool HasLoggedIn(const std::string& host) const;

 private:
  std::map<std::string, std::deque<std::string>> lines_;
  std::set<std::string> running_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_REMOTE_SHELL_H_
