// SPDX-License-Identifier: Apache-2.0
// The messages of the probe: can a host open connections to its neighbour? Part of message.h, which
// is what users include; docs/protocol.md is the normative text.
#ifndef HVDRAY_WIRE_PROBE_H_
#define HVDRAY_WIRE_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdray::wire {

inline constexpr size_t kMaxProbeTargets = 64;  ///< Of one Probe.

struct ProbeTarget {
  std::string source;   ///< "10.0.0.5": an own address that the connection leaves from.
  std::string address;  ///< "10.0.0.6"
  uint16_t port = 1;    ///< Never 0.
  bool operator==(const ProbeTarget&) const = default;
};

/// Launcher to agent: open a TCP connection to each target, all at once, and say what came of it.
struct Probe {
  uint32_t timeout_ms = 5000;  ///< For all of them together.
  std::vector<ProbeTarget> targets;
  bool operator==(const Probe&) const = default;
};

/// How far a connection came; wire format.
enum class ProbeStage : uint8_t {
  kOk = 0,
  kRefused = 1,
  kTimeout = 2,
  kUnreachable = 3,  ///< No route, or the network says that the host is not there.
  kOther = 4,        ///< No such own address, no descriptor left, forbidden here…
};

struct ProbeOutcome {
  ProbeStage stage = ProbeStage::kOk;
  int32_t error = 0;  ///< errno; 0 when ok, or when only the time was over.
  bool operator==(const ProbeOutcome&) const = default;
};

/// Agent to launcher, once for a Probe: in the order of its targets.
struct ProbeResult {
  std::vector<ProbeOutcome> results;
  bool operator==(const ProbeResult&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_PROBE_H_
