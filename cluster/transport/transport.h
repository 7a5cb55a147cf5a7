// SPDX-License-Identifier: Apache-2.0
// How the launcher reaches the agent of a host: locally, over SSH, on Ray. One object per kind.
#ifndef HVDRAY_CLUSTER_TRANSPORT_TRANSPORT_H_
#define HVDRAY_CLUSTER_TRANSPORT_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/result.h"

namespace hvdray {

/// The process (or remote shell) that carries an agent's stream. Destroying this object does not
/// end the agent. Closing the stream does: an agent without its launcher stops its gang and exits.
class AgentProcess {
 public:
  virtual ~AgentProcess() = default;
  /// Calls back once when the carrier has ended, with the reason as far as it is known. The stream
  /// may close earlier.
  virtual void OnExit(std::function<void(Status)> callback) = 0;
  /// For reports; 0 when no process on this machine carries the stream.
  virtual int pid() const = 0;
};

/// A started agent: its stream, not started yet, and the carrier of the stream. Never null.
struct AgentStart {
  std::unique_ptr<ByteStream> stream;
  std::unique_ptr<AgentProcess> process;
};

/// Starts agents. Threads: the loop's.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Starts the agent of `host` in the background. Calls `done` once. Errors: kAgentStartFailed and
  /// those of the connection, each naming the host.
  virtual void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) = 0;
  /// Gives up all starts, without a call back, and ends what ran for them and would not end by
  /// itself. Blocks for a moment at most. Only the destructor may follow.
  virtual void Close() {}
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_TRANSPORT_H_
