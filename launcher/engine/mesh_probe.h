// SPDX-License-Identifier: Apache-2.0
// For `hvdray check`: every host opens a TCP connection to every other one through the chosen
// interfaces, as Gloo and NCCL will. Sends nothing itself and starts nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_MESH_PROBE_H_
#define HVDRAY_LAUNCHER_ENGINE_MESH_PROBE_H_

#include <cstddef>
#include <functional>
#include <vector>

#include "base/loop.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/report/check_findings.h"

namespace hvdray {

/// With more hosts than a Probe has targets (64), each host tries those that follow it in the list.
/// Threads: the loop's.
class MeshProbe {
 public:
  using SendFn = std::function<void(size_t host, wire::Probe probe)>;
  /// Indices into the constructor's `hosts`.
  using DoneFn = std::function<void(std::vector<ClosedWay> closed)>;

  /// `hosts`: at least two. `on_done`: once, from the loop, OnResult() or OnLost(); may destroy the
  /// probe. Errors: those of NeighbourProbe.
  MeshProbe(Loop& loop, std::vector<ProbedHost> hosts, ProbeLimits limits, SendFn send,
            DoneFn on_done);
  /// Call once.
  void Start();
  /// A host's answer; ignored if it was not asked or has answered before.
  void OnResult(size_t host, const wire::ProbeResult& result);
  /// The host is gone: ignores its answer and all ways to it.
  void OnLost(size_t host);

 private:
  struct Row {
    ProbedHost host;
    std::vector<size_t> targets;
    bool is_awaited = false;
    bool is_lost = false;
    std::vector<ClosedWay> closed;
  };
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

#endif  // HVDRAY_LAUNCHER_ENGINE_MESH_PROBE_H_
