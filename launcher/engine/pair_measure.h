// SPDX-License-Identifier: Apache-2.0
// For `hvdray check`: each pair of hosts measures round trips and bandwidth through the chosen
// interfaces, in rounds in which every host takes part in at most one pair. Sends nothing itself.
#ifndef HVDRAY_LAUNCHER_ENGINE_PAIR_MEASURE_H_
#define HVDRAY_LAUNCHER_ENGINE_PAIR_MEASURE_H_

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/loop.h"
#include "launcher/engine/reach_probe.h"
#include "launcher/report/check_findings.h"

namespace hvdray {

/// Indices of two hosts.
using HostPair = std::pair<size_t, size_t>;

/// More hosts than this are measured with some of the others only.
inline constexpr size_t kMaxMeasureRounds = 31;

/// A round-robin tournament: every two of `hosts` meet once, in at most `max_rounds` rounds, and
/// nobody meets two others in one round. Pure. Source: the circle method, in which one stays and
/// all others move on by one place.
std::vector<std::vector<HostPair>> RoundsOf(size_t hosts, size_t max_rounds = kMaxMeasureRounds);

/// One host of the measurement.
struct MeasuredHost {
  ProbedHost place;
  bool measures = false;  ///< Its agent can.
};

/// Time limits of one round.
struct MeasureLimits {
  std::chrono::milliseconds step{250};    ///< Round trips, and each direction.
  std::chrono::milliseconds pair{4000};   ///< For a pair; agents enforce it.
  std::chrono::milliseconds spare{3000};  ///< In addition, for the answer's way.
};

/// Steps so short that all `rounds` together take a few seconds.
MeasureLimits MeasureLimitsFor(size_t rounds);

/// Threads: the loop's.
class PairMeasure {
 public:
  using SendFn = std::function<void(size_t host, wire::Probe probe)>;
  /// Indices into the constructor's `hosts`.
  using DoneFn = std::function<void(std::vector<MeasuredPair> pairs)>;

  /// `closed`: ways (from, to) that are known to be closed; a pair is then measured from its other
  /// end, or not at all. `token`: kMeasureTokenBytes bytes that nobody can guess. `on_done`: once,
  /// from the loop, OnResult() or OnLost(); may destroy this.
  PairMeasure(Loop& loop, std::vector<MeasuredHost> hosts, std::set<HostPair> closed,
              std::string token, MeasureLimits limits, SendFn send, DoneFn on_done);
  /// Call once.
  void Start();
  /// A host's answer; ignored if it was not asked.
  void OnResult(size_t host, const wire::ProbeResult& result);
  /// The host is gone: there is no result of any pair with it.
  void OnLost(size_t host);

 private:
  struct Row {
    MeasuredHost host;
    bool is_awaited = false;
    bool is_lost = false;
    size_t target = 0;
  };
  wire::Probe ProbeOf() const;
  bool IsFit(size_t host) const;
  /// The way to measure a pair; false: there is none.
  bool Direct(HostPair& pair) const;
  void Await(std::chrono::milliseconds limit);
  void GoOnIfAnswered();
  void BeginRound();
  void OnSilence();
  void Finish();

  Loop& loop_;
  std::vector<Row> rows_;
  const std::set<HostPair> closed_;
  const std::string token_;
  const MeasureLimits limits_;
  SendFn send_;
  DoneFn on_done_;
  std::vector<std::vector<HostPair>> rounds_;
  size_t next_round_ = 0;
  bool is_serving_ = false;  // All agents have been told the token and have answered.
  std::vector<MeasuredPair> pairs_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_PAIR_MEASURE_H_
