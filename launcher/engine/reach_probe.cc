// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/reach_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr char kHint[] =
    "look for a firewall between them, or name the interface that reaches all hosts: "
    "--network-interfaces";

}  // namespace

Status StatusOfProbe(const wire::ProbeOutcome& outcome, milliseconds limit) {
  switch (outcome.stage) {
    case wire::ProbeStage::kOk:
      return {};
    case wire::ProbeStage::kRefused:
      return {ErrorCode::kHostRefused, "connection refused", kHint};
    case wire::ProbeStage::kTimeout:
      return {ErrorCode::kConnectTimeout, "timed out after " + SecondsText(limit), kHint};
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

ReachProbe::ReachProbe(Loop& loop, std::vector<ProbedHost> hosts, size_t targets_each,
                       ProbeLimits limits, SendFn send, DoneFn on_done)
    : loop_(loop),
      hosts_(std::move(hosts)),
      targets_each_(targets_each),
      limits_(limits),
      rows_(hosts_.size()),
      send_(std::move(send)),
      on_done_(std::move(on_done)) {
  HVDRAY_CHECK(hosts_.size() > 1);
}

void ReachProbe::Start() {
  for (size_t from = 0; from < rows_.size(); ++from) {
    Row& row = rows_[from];
    if (hosts_[from].port == 0) {
      row.closed.push_back(
          {from, from,
           Status(ErrorCode::kOutOfResources, "its agent has no port for other hosts to test",
                  "see that agent's output for the reason")});
    }
    wire::Probe probe;
    probe.timeout_ms = static_cast<uint32_t>(limits_.connect.count());
    for (size_t step = 1; step < rows_.size(); ++step) {
      const size_t to = (from + step) % rows_.size();
      if (hosts_[to].port == 0 || row.targets.size() >= targets_each_) continue;
      row.targets.push_back(to);
      probe.targets.push_back({hosts_[from].address, hosts_[to].address, hosts_[to].port});
    }
    if (row.targets.empty()) continue;
    row.is_awaited = true;
    send_(from, std::move(probe));
  }
  const bool is_any_awaited =
      std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; });
  timer_ = loop_.After(is_any_awaited ? limits_.answer : milliseconds(0), [this] { Finish(); });
}

void ReachProbe::OnResult(size_t host, const wire::ProbeResult& result) {
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

void ReachProbe::OnLost(size_t host) {
  Row& row = rows_[host];
  if (std::exchange(row.is_lost, true)) return;
  row.is_awaited = false;
  FinishIfDone();
}

void ReachProbe::FinishIfDone() {
  if (std::none_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; })) {
    Finish();
  }
}

void ReachProbe::Finish() {
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
                  fmt::format("its agent did not say within {} which hosts it reaches",
                              SecondsText(limits_.answer)),
                  "see what that host is doing")});
    }
    for (ClosedWay& way : row.closed) {
      if (!rows_[way.to].is_lost) closed.push_back(std::move(way));
    }
  }
  const DoneFn done = std::exchange(on_done_, nullptr);
  done(std::move(closed));
}

std::optional<ProbeFailure> FailureOf(std::span<const ProbedHost> hosts,
                                      std::span<const ClosedWay> closed) {
  if (closed.empty()) return std::nullopt;
  const ClosedWay& way = closed.front();
  const ProbedHost& from = hosts[way.from];
  const ProbedHost& to = hosts[way.to];
  Status why = Status(way.why).WithContext(
      way.from == way.to ? "host " + from.name
                         : fmt::format("host {} ({} {}) cannot reach host {} ({})", from.name,
                                       from.nic, from.address, to.name, to.address));
  size_t more = 0;  // hosts with a failure
  for (size_t i = 1; i < closed.size(); ++i) more += closed[i].from != closed[i - 1].from ? 1 : 0;
  if (more > 0) {
    why = {why.code(),
           fmt::format("{}; {} more host{} failed the probe", why.message(), more,
                       more == 1 ? "" : "s"),
           why.hint()};
  }
  return ProbeFailure{way.from, std::move(why)};
}

}  // namespace hvdray
