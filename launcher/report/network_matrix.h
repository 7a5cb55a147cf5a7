// SPDX-License-Identifier: Apache-2.0
// What pairs of hosts have measured: which are slow, and the matrices of `hvdray check`. Pure.
// docs/check.md.
#ifndef HVDRAY_LAUNCHER_REPORT_NETWORK_MATRIX_H_
#define HVDRAY_LAUNCHER_REPORT_NETWORK_MATRIX_H_

#include <span>
#include <string>
#include <vector>

#include "launcher/report/check_facts.h"

namespace hvdray {

/// What is usual between these hosts: the median over the hosts of each one's best value, so that
/// one slow host of three is not the rule. 0: nothing was measured.
struct NetworkMedians {
  double round_trip_s = 0;
  double bytes_per_s = 0;
};
NetworkMedians Medians(std::span<const MeasuredPair> pairs);

/// Adds a finding for each host that is slow with every other one, for each other slow pair (at
/// most ten), for each pair without numbers, and for hosts that can't measure. Slow: less than half
/// of the median bandwidth, or round trips of three times the median and at least 1 ms more. Two
/// hosts have nothing to compare with.
void JudgePairs(const CheckFacts& facts, std::vector<Finding>& findings);

enum class Shades : uint8_t { kNone, kAnsi };  ///< kAnsi: 256 colours of a terminal.

/// Bandwidth from each row's host to each column's, and round trips; "-": not measured. Empty if
/// hosts have measured nothing. Too many hosts for a screen: the medians only.
std::string MatrixText(const CheckFacts& facts, Shades shades);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_REPORT_NETWORK_MATRIX_H_
