// SPDX-License-Identifier: Apache-2.0
// Finds out from which size on which algorithm of an all-reduce is the faster one here.
#ifndef HVDRAY_COLLECTIVE_BENCH_TUNE_H_
#define HVDRAY_COLLECTIVE_BENCH_TUNE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "base/result.h"
#include "collective/algorithm_table.h"
#include "collective/bench/runner.h"
#include "collective/communicator.h"

namespace hvdray {

/// One size with both algorithms of a choice.
struct TunePoint {
  uint64_t bytes = 0;   ///< Of a rank's buffer.
  double small_us = 0;  ///< With the algorithm for small sizes; the median.
  double large_us = 0;
};

/// The size up to which the algorithm for small sizes should run: that of a point, or 0, which
/// makes the sum of times least, each as a multiple of the better one. Pure.
uint64_t BestBoundary(std::span<const TunePoint> points);

/// Measures the choices that the communicator's backend has, the others keep their defaults.
/// All ranks call it and get the same table, which is in use then. `show` gets a part of a report.
/// Errors: those of the communicator and of `show`.
Result<AlgorithmTable> Tune(Communicator& communicator, const BenchOptions& options,
                            const std::function<Status(const std::string&)>& show);

/// Of the largest buffer that Tune() takes.
constexpr size_t kTuneBytes = size_t{16} << 20;

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_TUNE_H_
