// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/pair_measure.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::MeasureStep;

constexpr milliseconds kShortestStep{50};
constexpr milliseconds kAllSteps{1000};

constexpr char kDataHint[] =
    "small packets pass and large ones do not: compare the MTU along the way (ping -M do -s 1472), "
    "or name another interface: --network-interfaces";

/// Why a pair has no numbers, without its names.
Status StatusOfMeasure(const wire::ProbeOutcome& outcome, milliseconds limit) {
  Status status = StatusOfProbe(outcome, limit);
  const bool is_connected = outcome.step > MeasureStep::kConnecting;
  if (is_connected && outcome.stage == wire::ProbeStage::kOther) {
    status = ErrnoStatus("measurement", outcome.error);
  }
  if (!is_connected && !status.ok()) return status;
  if (outcome.step == MeasureStep::kRoundTrips && !status.ok()) {
    return std::move(status).WithContext("connected, but no message came back");
  }
  if (outcome.step == MeasureStep::kSending && !status.ok()) {
    return std::move(status)
        .WithContext("connected, but no bulk data arrived there")
        .WithHint(kDataHint);
  }
  if (outcome.step == MeasureStep::kReceiving && !status.ok()) {
    return std::move(status)
        .WithContext("connected, but no bulk data came back")
        .WithHint(kDataHint);
  }
  if (outcome.step == MeasureStep::kDone) return status;
  return {ErrorCode::kProtocolError, "its agent answered a measurement without numbers"};
}

}  // namespace

std::vector<std::vector<HostPair>> RoundsOf(size_t hosts, size_t max_rounds) {
  std::vector<std::vector<HostPair>> rounds;
  if (hosts < 2) return rounds;
  // With an odd number, the one who would meet the last place waits.
  const size_t places = hosts + hosts % 2;
  for (size_t round = 0; round < std::min(places - 1, max_rounds); ++round) {
    std::vector<HostPair>& pairs = rounds.emplace_back();
    const auto at = [&](size_t place) {
      return place == 0 ? size_t{0} : 1 + (place - 1 + round) % (places - 1);
    };
    for (size_t place = 0; place < places / 2; ++place) {
      const HostPair pair = std::minmax({at(place), at(places - 1 - place)});
      if (pair.second < hosts) pairs.push_back(pair);
    }
  }
  return rounds;
}

MeasureLimits MeasureLimitsFor(size_t rounds) {
  MeasureLimits limits;
  limits.step = std::clamp(kAllSteps / static_cast<int>(std::max<size_t>(rounds, 1)), kShortestStep,
                           limits.step);
  return limits;
}

PairMeasure::PairMeasure(Loop& loop, std::vector<MeasuredHost> hosts, std::set<HostPair> closed,
                         std::string token, MeasureLimits limits, SendFn send, DoneFn on_done)
    : loop_(loop),
      closed_(std::move(closed)),
      token_(std::move(token)),
      limits_(limits),
      send_(std::move(send)),
      on_done_(std::move(on_done)),
      rounds_(RoundsOf(hosts.size())) {
  for (MeasuredHost& host : hosts) rows_.push_back({.host = std::move(host)});
}

wire::Probe PairMeasure::ProbeOf() const {
  wire::Probe probe;
  probe.timeout_ms = static_cast<uint32_t>(limits_.pair.count());
  probe.token = token_;
  probe.measure_ms = static_cast<uint32_t>(limits_.step.count());
  return probe;
}

bool PairMeasure::IsFit(size_t host) const {
  const Row& row = rows_[host];
  return row.host.measures && row.host.place.port != 0 && !row.is_lost;
}

bool PairMeasure::Direct(HostPair& pair) const {
  if (!IsFit(pair.first) || !IsFit(pair.second)) return false;
  if (closed_.contains(pair)) std::swap(pair.first, pair.second);
  return !closed_.contains(pair);
}

void PairMeasure::Start() {
  // First all of them serve, so that nobody connects to an agent that does not know the token yet.
  for (size_t host = 0; host < rows_.size(); ++host) {
    if (!IsFit(host)) continue;
    rows_[host].is_awaited = true;
    send_(host, ProbeOf());
  }
  Await(limits_.spare);
}

void PairMeasure::Await(milliseconds limit) {
  const bool is_any_awaited =
      std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; });
  timer_ = loop_.After(is_any_awaited ? limit : milliseconds(0), [this] { OnSilence(); });
}

void PairMeasure::OnResult(size_t host, const wire::ProbeResult& result) {
  Row& row = rows_[host];
  if (!std::exchange(row.is_awaited, false)) return;
  if (is_serving_) {
    MeasuredPair pair{.from = host, .to = row.target};
    if (result.results.size() == 1) {
      const wire::ProbeOutcome& outcome = result.results[0];
      pair.why = StatusOfMeasure(outcome, limits_.pair);
      pair.round_trip = std::chrono::nanoseconds(outcome.round_trip_ns);
      pair.there = static_cast<double>(outcome.sent_bytes_per_s);
      pair.back = static_cast<double>(outcome.received_bytes_per_s);
    } else {
      pair.why = {ErrorCode::kProtocolError,
                  fmt::format("its agent answered a measurement of one address with {} results",
                              result.results.size())};
    }
    pairs_.push_back(std::move(pair));
  }
  GoOnIfAnswered();
}

void PairMeasure::OnLost(size_t host) {
  Row& row = rows_[host];
  row.is_lost = true;
  if (std::exchange(row.is_awaited, false)) GoOnIfAnswered();
}

void PairMeasure::OnSilence() {
  for (size_t host = 0; host < rows_.size(); ++host) {
    Row& row = rows_[host];
    if (!std::exchange(row.is_awaited, false)) continue;
    // It may still be busy with this one: it takes no other.
    row.host.measures = false;
    if (!is_serving_) row.target = host;
    const auto limit = is_serving_ ? limits_.pair + limits_.spare : limits_.spare;
    pairs_.push_back({.from = host,
                      .to = row.target,
                      .why = {ErrorCode::kDeadlineExceeded,
                              fmt::format("its agent did not answer a measurement within {}",
                                          SecondsText(limit)),
                              "see what that host is doing"}});
  }
  is_serving_ = true;
  BeginRound();
}

void PairMeasure::GoOnIfAnswered() {
  if (std::any_of(rows_.begin(), rows_.end(), [](const Row& row) { return row.is_awaited; })) {
    return;
  }
  is_serving_ = true;
  BeginRound();
}

void PairMeasure::BeginRound() {
  bool is_any_asked = false;
  while (!is_any_asked) {
    if (next_round_ == rounds_.size()) return Finish();
    for (HostPair pair : rounds_[next_round_++]) {
      if (!Direct(pair)) continue;
      Row& row = rows_[pair.first];
      const ProbedHost& target = rows_[pair.second].host.place;
      row.target = pair.second;
      row.is_awaited = is_any_asked = true;
      wire::Probe probe = ProbeOf();
      probe.targets.push_back({row.host.place.address, target.address, target.port});
      send_(pair.first, std::move(probe));
    }
  }
  Await(limits_.pair + limits_.spare);
}

void PairMeasure::Finish() {
  timer_.Cancel();
  if (!on_done_) return;
  std::erase_if(pairs_, [this](const MeasuredPair& pair) {
    return rows_[pair.from].is_lost || rows_[pair.to].is_lost;
  });
  // The callee may destroy us, and with us the function that runs.
  const DoneFn done = std::exchange(on_done_, nullptr);
  done(std::move(pairs_));
}

}  // namespace hvdray
