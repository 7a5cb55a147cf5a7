// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/neighbour_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr char kHint[] =
    "look for a firewall between them, or name the interface that reaches all hosts: "
    "--network-interfaces";

std::string ShowSeconds(milliseconds time) {
  return fmt::format("{:.3g} s", std::chrono::duration<double>(time).count());
}

}  // namespace

Status StatusOfProbe(const wire::ProbeOutcome& outcome, milliseconds limit) {
  switch (outcome.stage) {
    case wire::ProbeStage::kOk:
      return {};
    case wire::ProbeStage::kRefused:
      return {ErrorCode::kHostRefused, "connection refused", kHint};
    case wire::ProbeStage::kTimeout:
      return {ErrorCode::kConnectTimeout, "timed out after " + ShowSeconds(limit), kHint};
    case wire::ProbeStage::kUnreachable:
      return ErrnoStatus("connect", outcome.error != 0 ? outcome.error : EHOSTUNREACH)
          .WithCode(ErrorCode::kHostUnreachable)
          .WithHint(kHint);
    case wire::ProbeStage::kOther:
      return ErrnoStatus("connect", outcome.error).WithHint(kHint);
  }
  return {ErrorCode::kProtocolError, "an unknown stage"};
}

bool IsProbeWanted(HostSpread spread, size_t host_count) {
  return spread == HostSpread::kManyMachines && host_count > 1;
}

ProbeLimits ProbeLimitsWithin(Duration start_timeout) {
  const auto whole = std::chrono::duration_cast<milliseconds>(start_timeout);
  ProbeLimits limits;
  limits.connect = std::max(milliseconds(1), std::min(limits.connect, whole / 4));
  limits.answer = std::max(milliseconds(1), std::min(limits.answer, whole / 2));
  return limits;
}

NeighbourProbe::NeighbourProbe(Loop& loop, std::vector<ProbedHost> hosts, ProbeLimits limits,
                               SendFn send, DoneFn on_done)
    : loop_(loop), limits_(limits), send_(std::move(send)), on_done_(std::move(on_done)) {
  HVDRAY_CHECK(hosts.size() > 1);
  for (ProbedHost& host : hosts) rows_.push_back({std::move(host), false, {}});
}

void NeighbourProbe::Start() {
  for (size_t i = 0; i < rows_.size(); ++i) {
    const ProbedHost& target = rows_[NeighbourOf(i)].host;
    if (target.port == 0) {
      // The neighbour's fault, so its row gets the status, whatever its own probe yields.
      rows_[NeighbourOf(i)].status = {
          ErrorCode::kOutOfResources,
          fmt::format("the agent on host {} has no port for host {} to test", target.name,
                      rows_[i].host.name),
          "see that agent's output for the reason"};
      continue;
    }
    rows_[i].is_awaited = true;
    wire::Probe probe;
    probe.timeout_ms = static_cast<uint32_t>(limits_.connect.count());
    probe.targets.push_back({rows_[i].host.address, target.address, target.port});
    send_(static_cast<int>(i), std::move(probe));
  }
  const bool is_any_awaited =
      std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; });
  timer_ = loop_.After(is_any_awaited ? limits_.answer : milliseconds(0), [this] { Finish(); });
}

void NeighbourProbe::OnResult(int host, const wire::ProbeResult& result) {
  Row& row = rows_[static_cast<size_t>(host)];
  if (!std::exchange(row.is_awaited, false)) return;
  Status status = Judge(static_cast<size_t>(host), result);
  if (row.status.ok()) row.status = std::move(status);
  FinishIfDone();
}

Status NeighbourProbe::Judge(size_t host, const wire::ProbeResult& result) const {
  const ProbedHost& from = rows_[host].host;
  const ProbedHost& to = rows_[NeighbourOf(host)].host;
  if (result.results.size() != 1) {
    return {ErrorCode::kProtocolError,
            fmt::format("the agent on host {} answered a probe of one address with {} results",
                        from.name, result.results.size())};
  }
  return StatusOfProbe(result.results[0], limits_.connect)
      .WithContext(fmt::format("host {} ({} {}) cannot reach host {} ({})", from.name, from.nic,
                               from.address, to.name, to.address));
}

void NeighbourProbe::FinishIfDone() {
  if (std::none_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; })) {
    Finish();
  }
}

void NeighbourProbe::Finish() {
  timer_.Cancel();
  std::optional<ProbeFailure> failure;
  size_t more = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    Row& row = rows_[i];
    if (std::exchange(row.is_awaited, false) && row.status.ok()) {
      row.status = {
          ErrorCode::kDeadlineExceeded,
          fmt::format("the agent on host {} did not say within {} whether it reaches host {}",
                      row.host.name, ShowSeconds(limits_.answer), rows_[NeighbourOf(i)].host.name)};
    }
    if (row.status.ok()) continue;
    if (failure) {
      ++more;
    } else {
      failure = ProbeFailure{static_cast<int>(i), row.status};
    }
  }
  if (more > 0) {
    const Status& first = failure->why;
    failure->why = {first.code(),
                    fmt::format("{}; {} more host{} failed the probe", first.message(), more,
                                more == 1 ? "" : "s"),
                    first.hint()};
  }
  // The callee may destroy us, and with us the function that runs.
  const DoneFn done = std::exchange(on_done_, nullptr);
  done(std::move(failure));
}

}  // namespace hvdray
