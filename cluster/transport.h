// How the launcher reaches the agent of a host: this machine, SSH, Ray. One object a kind.
#ifndef HVDRAY_CLUSTER_TRANSPORT_H_
#define HVDRAY_CLUSTER_TRANSPORT_H_

#include <functional>
#include <memory>
#include <string>

#include "base/byte_stream.h"
#include "base/result.h"

namespace hvdray {

/// The process (or remote shell) that carries an agent's stream. Destroying it does not end the
/// agent: closing the stream does (lifeline, style P6).
class AgentProcess {
 public:
  virtual ~AgentProcess() = default;
  /// Calls back once when the carrier has ended, with what is known of how; maybe after the stream
  /// has closed. At once (from the loop) if it has ended already.
  virtual void OnExit(std::function<void(Status)> callback) = 0;
  /// For reports; 0 when there is none on this machine.
  virtual int pid() const = 0;
};

struct AgentStart {
  std::unique_ptr<ByteStream> stream;
  std::unique_ptr<AgentProcess> process;
};

/// Threads: the loop's.
class Transport {
 public:
  virtual ~Transport() = default;
  /// Begins to start the agent of `host`; `done` is called once, from the loop, never from within
  /// Start(). Errors: kAgentStartFailed and those of the way there, each naming the host.
  virtual void Start(const std::string& host, std::function<void(Result<AgentStart>)> done) = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_H_
