// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "collective/bench/sweep.h"

namespace hvdray {
namespace {

constexpr uint64_t kAlways = uint64_t{1} << 60;

// A number of the table: up to it the first algorithm runs. `unit`: the number is bytes of a buffer
// divided by it, and the first algorithm runs below it.
struct Choice {
  uint64_t AlgorithmTable::*number;
  std::string_view small;
  std::string_view large;
  uint64_t least;
  uint64_t most;
  uint64_t unit = 1;
};

std::vector<Choice> ChoicesOf(const Communicator& communicator) {
  constexpr uint64_t kKiB = 1024;
  const auto size = static_cast<uint64_t>(communicator.size());
  const auto parties = static_cast<uint64_t>(communicator.network_size());
  const std::string_view backend = communicator.backend();
  if (backend == "shm") {
    return {{size == 2 ? &AlgorithmTable::shm_direct_of_two : &AlgorithmTable::shm_direct,
             "each reads all", "each reduces a piece", 256, 256 * kKiB}};
  }
  std::vector<Choice> choices;
  if (parties > 1) {
    choices.push_back({&AlgorithmTable::network_doubling, "doubling",
                       "halving and doubling, or a ring", 1 * kKiB, 1024 * kKiB});
  }
  if (parties > 2) {
    choices.push_back({&AlgorithmTable::network_ring, "halving and doubling", "ring", 32 * kKiB,
                       kTuneBytes, parties});
  }
  if (backend == "hierarchical") {
    choices.push_back({&AlgorithmTable::slices, "one speaks", "slices", 64 * kKiB, kTuneBytes});
  }
  return backend == "gloo" || backend == "hierarchical" ? choices : std::vector<Choice>{};
}

}  // namespace

uint64_t BestBoundary(std::span<const TunePoint> points) {
  uint64_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (size_t boundary = 0; boundary <= points.size(); ++boundary) {
    double sum = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const TunePoint& point = points[i];
      const double better = std::min(point.small_us, point.large_us);
      sum += (i < boundary ? point.small_us : point.large_us) / better;
    }
    if (sum >= least) continue;
    least = sum;
    best = boundary == 0 ? 0 : points[boundary - 1].bytes;
  }
  return best;
}

Result<AlgorithmTable> Tune(Communicator& communicator, const BenchOptions& options,
                            const std::function<Status(const std::string&)>& show) {
  HVDRAY_ASSIGN_OR_RETURN(BenchRunner runner, BenchRunner::Make(communicator, options, kTuneBytes));
  AlgorithmTable table;
  for (const Choice& choice : ChoicesOf(communicator)) {
    HVDRAY_RETURN_IF_ERROR(
        show(fmt::format("#\n# all_reduce, in-place, float32: {} | {}\n"
                         "#       size   time (us), p50\n",
                         choice.small, choice.large)));
    std::vector<TunePoint> points;
    for (uint64_t bytes = choice.least; bytes <= choice.most; bytes *= 2) {
      const BenchCase one{.count = bytes / SizeOf(DataType::kFloat32), .bytes = bytes};
      TunePoint point{.bytes = bytes};
      for (const bool is_small : {true, false}) {
        AlgorithmTable forced = table;
        // What comes before it must not run at all, and whole buffers go over the network.
        if (choice.number == &AlgorithmTable::network_ring) forced.network_doubling = 0;
        if (choice.number != &AlgorithmTable::slices) forced.slices = kAlways;
        forced.*choice.number = is_small ? kAlways : 0;
        communicator.UseTable(forced);
        HVDRAY_ASSIGN_OR_RETURN(const BenchRow row, runner.Measure(one));
        (is_small ? point.small_us : point.large_us) = row.in_place->p50_us;
      }
      HVDRAY_RETURN_IF_ERROR(
          show(fmt::format("{:>12} {:>10.1f} | {:.1f}\n", bytes, point.small_us, point.large_us)));
      points.push_back(point);
    }
    const uint64_t boundary = BestBoundary(points);
    table.*choice.number =
        choice.unit == 1 || boundary == 0 ? boundary : boundary / choice.unit + 1;
  }
  communicator.UseTable(table);
  return table;
}

}  // namespace hvdray
