// SPDX-License-Identifier: Apache-2.0
// The messages of the network probe, which tests whether a host can connect to others. Part of
// message.h; values. docs/protocol.md is normative.
#ifndef HVDRAY_WIRE_PROBE_H_
#define HVDRAY_WIRE_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdray::wire {

inline constexpr size_t kMaxProbeTargets = 64;  ///< Per Probe.

struct ProbeTarget {
  std::string source;   ///< "10.0.0.5": the local IPv4 address to connect from.
  std::string address;  ///< "10.0.0.6": the IPv4 address to connect to.
  uint16_t port = 1;    ///< Never 0.
  bool operator==(const ProbeTarget&) const = default;
};

inline constexpr size_t kMeasureTokenBytes = 32;
inline constexpr uint32_t kMaxMeasureMs = 10000;

/// Launcher to agent: open TCP connections to all targets at once and report the results. With a
/// token: measure the one target, if there is one, and serve others that have the token.
struct Probe {
  uint32_t timeout_ms = 5000;  ///< For all targets together.
  std::vector<ProbeTarget> targets;
  std::string token = {};     ///< kMeasureTokenBytes bytes. Empty: no measurement.
  uint32_t measure_ms = 250;  ///< How long each step of a measurement takes.
  bool operator==(const Probe&) const = default;
};

/// The outcome of a connection attempt. The values are wire format.
enum class ProbeStage : uint8_t {
  kOk = 0,
  kRefused = 1,
  kTimeout = 2,
  kUnreachable = 3,  ///< No route, or the network reports the host as unreachable.
  kOther = 4,        ///< No such local address, no descriptor left, not permitted, …
};

/// How far a measurement came. The values are wire format.
enum class MeasureStep : uint8_t {
  kNone = 0,        ///< It was no measurement.
  kConnecting = 1,  ///< Not connected.
  kRoundTrips = 2,  ///< Connected; no small message came back.
  kSending = 3,     ///< The target received no bulk data.
  kReceiving = 4,   ///< The target's data did not arrive.
  kDone = 5,
};

struct ProbeOutcome {
  ProbeStage stage = ProbeStage::kOk;
  int32_t error = 0;  ///< errno; 0: connected, or out of time.
  MeasureStep step = MeasureStep::kNone;
  int64_t round_trip_ns = 0;         ///< Median of small messages; 0: not measured.
  int64_t sent_bytes_per_s = 0;      ///< To the target, as it arrived there.
  int64_t received_bytes_per_s = 0;  ///< From the target.
  bool operator==(const ProbeOutcome&) const = default;
};

/// Agent to launcher, once per Probe: the outcomes, in the order of its targets.
struct ProbeResult {
  std::vector<ProbeOutcome> results;
  bool operator==(const ProbeResult&) const = default;
};

}  // namespace hvdray::wire

#endif  // HVDRAY_WIRE_PROBE_H_
