// SPDX-License-Identifier: Apache-2.0
// The messages of elastic jobs, whose gangs change while workers run. Part of message.h; values.
// docs/protocol.md is normative.
#ifndef HVDRAY_WIRE_ELASTIC_H_
#define HVDRAY_WIRE_ELASTIC_H_

#include <cstdint>
#include <string>
#include <vector>

namespace hvdray::wire {

/// Launcher to agent: shut the connections between running workers of the header's generation, and
/// nothing else. Idempotent. Answered by ConnectionsBroken.
struct BreakConnections {
  bool operator==(const BreakConnections&) const = default;
};

/// Agent to launcher: the result of BreakConnections. agent/connection_breaker.h defines the
/// counts.
struct ConnectionsBroken {
  uint32_t shut = 0;
  uint32_t destroyed = 0;
  uint32_t refused = 0;
  uint32_t took_us = 0;  ///< Microseconds.
  std::string why;       ///< Why the first one was refused; empty: none was.
  std::string hint;      ///< What would allow it.
  bool operator==(const ConnectionsBroken&) const = default;
};

/// Launcher to agent: tell this worker that the set of hosts has changed. May be lost.
struct Notify {
  int32_t worker = 0;
  int64_t timestamp = 0;  ///< Seconds since 1970; increases from notice to notice.
  uint8_t code = 3;       ///< Horovod's HostUpdateResult: 1 removed, 2 added, 3 both.
  bool operator==(const Notify&) const = default;
};

/// Agent to launcher: this host will leave the job. This is not a failure.
struct HostLeaving {
  uint32_t in_ms = 0;
  bool operator==(const HostLeaving&) const = default;
};

/// Agent to launcher: a worker whose generation is not published yet has reached hvd.init(). Its
/// first PUT is held.
struct WorkerArrived {
  int32_t worker = 0;
  bool operator==(const WorkerArrived&) const = default;
};

/// Launcher to agent: stop only these workers, by SIGTERM, grace and SIGKILL. Unknown ones are
/// ignored.
struct StopWorkers {
  std::vector<int32_t> workers;
  uint32_t grace_ms = 0;
  bool operator==(const StopWorkers&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_ELASTIC_H_
