// SPDX-License-Identifier: Apache-2.0
// Hosts open TCP connections to each other through the chosen interfaces, as Gloo and NCCL will:
// before the first generation of a job on several machines each to the next one, for `hvdray check`
// each to all others. Sends nothing itself and starts nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_REACH_PROBE_H_
#define HVDRAY_LAUNCHER_ENGINE_REACH_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "launcher/job/nic_select.h"
#include "launcher/report/check_findings.h"
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

/// Each host tries the `targets_each` hosts that follow it in the list, the first after the last:
/// with one each, two hosts prove both directions. Threads: the loop's.
class ReachProbe {
 public:
  /// How many a host can try: with more hosts than that, not all ways are.
  static constexpr size_t kAll = wire::kMaxProbeTargets;

  /// `host`, and those of ClosedWay: indices into the constructor's `hosts`.
  using SendFn = std::function<void(size_t host, wire::Probe probe)>;
  using DoneFn = std::function<void(std::vector<ClosedWay> closed)>;

  /// `hosts`: at least two. `on_done`: once, from the loop, OnResult() or OnLost(), with what is
  /// closed, in the order of hosts; it may destroy the probe. Errors of a way: kHostRefused,
  /// kConnectTimeout, kHostUnreachable, kSystem; of a host (from == to): kOutOfResources without a
  /// listener, kDeadlineExceeded if its agent does not answer, kProtocolError.
  ReachProbe(Loop& loop, std::vector<ProbedHost> hosts, size_t targets_each, ProbeLimits limits,
             SendFn send, DoneFn on_done);
  /// Call once.
  void Start();
  /// A host's answer; ignored if it was not asked or has answered before.
  void OnResult(size_t host, const wire::ProbeResult& result);
  /// The host is gone: ignores its answer and all ways to it.
  void OnLost(size_t host);
  const std::vector<ProbedHost>& hosts() const { return hosts_; }

 private:
  struct Row {
    std::vector<size_t> targets;
    bool is_awaited = false;
    bool is_lost = false;
    std::vector<ClosedWay> closed;
  };
  void FinishIfDone();
  void Finish();

  Loop& loop_;
  const std::vector<ProbedHost> hosts_;
  const size_t targets_each_;
  const ProbeLimits limits_;
  std::vector<Row> rows_;
  SendFn send_;
  DoneFn on_done_;
  Watch timer_;
};

/// The first failure of a probe, for the user.
struct ProbeFailure {
  size_t host = 0;  ///< That could not reach another one, or is of no use itself.
  Status why;       ///< Names it, the other one with the failed stage, and how many more failed.
};

/// nullopt: all ways are open.
std::optional<ProbeFailure> FailureOf(std::span<const ProbedHost> hosts,
                                      std::span<const ClosedWay> closed);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_REACH_PROBE_H_
