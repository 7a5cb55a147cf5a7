// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/mesh_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hvdray {

MeshProbe::MeshProbe(Loop& loop, std::vector<ProbedHost> hosts, ProbeLimits limits, SendFn send,
                     DoneFn on_done)
    : loop_(loop), limits_(limits), send_(std::move(send)), on_done_(std::move(on_done)) {
  HVDRAY_CHECK(hosts.size() > 1);
  for (ProbedHost& host : hosts) rows_.push_back({.host = std::move(host)});
}

void MeshProbe::Start() {
  for (size_t from = 0; from < rows_.size(); ++from) {
    Row& row = rows_[from];
    if (row.host.port == 0) {
      row.closed.push_back(
          {from, from,
           Status(ErrorCode::kOutOfResources, "its agent has no port for other hosts to test",
                  "see that agent's output for the reason")});
    }
    wire::Probe probe;
    probe.timeout_ms = static_cast<uint32_t>(limits_.connect.count());
    for (size_t step = 1; step < rows_.size(); ++step) {
      const size_t to = (from + step) % rows_.size();
      const ProbedHost& target = rows_[to].host;
      if (target.port == 0 || row.targets.size() >= wire::kMaxProbeTargets) continue;
      row.targets.push_back(to);
      probe.targets.push_back({row.host.address, target.address, target.port});
    }
    if (row.targets.empty()) continue;
    row.is_awaited = true;
    send_(from, std::move(probe));
  }
  const bool is_any_awaited =
      std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; });
  timer_ = loop_.After(is_any_awaited ? limits_.answer : std::chrono::milliseconds(0),
                       [this] { Finish(); });
}

void MeshProbe::OnResult(size_t host, const wire::ProbeResult& result) {
  Row& row = rows_[host];
  if (!std::exchange(row.is_awaited, false)) return;
  if (result.results.size() != row.targets.size()) {
    row.closed.push_back({host, host,
                          Status(ErrorCode::kProtocolError,
                                 fmt::format("its agent answered a probe of {} addresses with {} "
                                             "results",
                                             row.targets.size(), result.results.size()))});
    return FinishIfDone();
  }
  for (size_t i = 0; i < row.targets.size(); ++i) {
    Status status = StatusOfProbe(result.results[i], limits_.connect);
    if (!status.ok()) row.closed.push_back({host, row.targets[i], std::move(status)});
  }
  FinishIfDone();
}

void MeshProbe::OnLost(size_t host) {
  Row& row = rows_[host];
  if (std::exchange(row.is_lost, true)) return;
  row.is_awaited = false;
  FinishIfDone();
}

void MeshProbe::FinishIfDone() {
  if (std::none_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; })) {
    Finish();
  }
}

void MeshProbe::Finish() {
  timer_.Cancel();
  if (!on_done_) return;
  std::vector<ClosedWay> closed;
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    if (row.is_lost) continue;
    if (std::exchange(row.is_awaited, false)) {
      row.closed.push_back(
          {i, i,
           Status(ErrorCode::kDeadlineExceeded,
                  fmt::format("its agent did not say within {:.3g} s which hosts it reaches",
                              std::chrono::duration<double>(limits_.answer).count()),
                  "see what that host is doing")});
    }
    for (ClosedWay& way : row.closed) {
      if (!rows_[way.to].is_lost) closed.push_back(std::move(way));
    }
  }
  // The callee may destroy us, and with us the function that runs.
  const DoneFn done = std::exchange(on_done_, nullptr);
  done(std::move(closed));
}

}  // namespace hvdray
