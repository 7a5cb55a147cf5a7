// SPDX-License-Identifier: Apache-2.0
// Before the first generation of a job on several machines: every host opens a TCP connection to
// the next one through the chosen interfaces. Sends nothing itself and starts nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_NEIGHBOUR_PROBE_H_
#define HVDRAY_LAUNCHER_ENGINE_NEIGHBOUR_PROBE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcher/job/nic_select.h"
#include "wire/message.h"

namespace hvdray {

/// True if a job on these hosts begins with a probe; their agents then need a listener for it.
bool IsProbeWanted(HostSpread spread, size_t host_count);

/// One host of a probe.
struct ProbedHost {
  std::string name;
  std::string nic;      ///< "eth0"
  std::string address;  ///< Of that interface, IPv4.
  uint16_t port = 0;    ///< Where its agent listens; 0: no listener.
};

/// Time limits of a probe.
struct ProbeLimits {
  std::chrono::milliseconds connect{5000};  ///< Per connection; agents enforce it.
  std::chrono::milliseconds answer{10000};  ///< From Start() until every agent has answered.
};

/// The defaults, or less if `start_timeout` is short: the probe's message tells more about a
/// network than that timeout's.
ProbeLimits ProbeLimitsWithin(Duration start_timeout);

/// The result of one connection; ok: connected. Errors: those of the probe.
Status StatusOfProbe(const wire::ProbeOutcome& outcome, std::chrono::milliseconds limit);

/// The first failed connection of a probe.
struct ProbeFailure {
  int host = 0;  ///< Index of the host that could not reach its neighbour.
  Status why;    ///< Names that pair, the failed stage, and how many more failed.
};

/// Host i probes host i+1 and the last one the first, so two hosts prove both directions. Threads:
/// the loop's.
class NeighbourProbe {
 public:
  using SendFn = std::function<void(int host, wire::Probe probe)>;
  using DoneFn = std::function<void(std::optional<ProbeFailure> failure)>;

  /// `hosts`: at least two. `on_done`: once, from the loop or OnResult(); may destroy the probe.
  /// Errors of the failure: kHostRefused, kConnectTimeout, kHostUnreachable; kOutOfResources for a
  /// host without a listener, kDeadlineExceeded for an agent that does not answer, kProtocolError,
  /// kSystem.
  NeighbourProbe(Loop& loop, std::vector<ProbedHost> hosts, ProbeLimits limits, SendFn send,
                 DoneFn on_done);
  /// Call once.
  void Start();
  /// A host's answer; ignored if it was not asked or has answered before.
  void OnResult(int host, const wire::ProbeResult& result);

 private:
  struct Row {
    ProbedHost host;
    bool is_awaited = false;
    Status status;  // of the way to its neighbour
  };
  size_t NeighbourOf(size_t host) const { return (host + 1) % rows_.size(); }
  Status Judge(size_t host, const wire::ProbeResult& result) const;
  void FinishIfDone();
  void Finish();

  Loop& loop_;
  std::vector<Row> rows_;
  ProbeLimits limits_;
  SendFn send_;
  DoneFn on_done_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_NEIGHBOUR_PROBE_H_
