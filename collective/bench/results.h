// SPDX-License-Identifier: Apache-2.0
// Measured times to figures, and figures to a table, JSON and CSV. Pure.
#ifndef HVDRAY_COLLECTIVE_BENCH_RESULTS_H_
#define HVDRAY_COLLECTIVE_BENCH_RESULTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collective/bench/sweep.h"

namespace hvdray {

/// One kind of call, in place or not. Of each call counts the rank that took longest.
struct Timing {
  size_t iterations = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p99_us = 0;
  double algbw_gbps = 0;  ///< 10^9 bytes a second, as nccl-tests counts.
  double busbw_gbps = 0;
  std::optional<uint64_t> wrong;  ///< Elements, over all ranks; nullopt: not checked.
};

struct BenchRow {
  BenchCase what;
  std::string backend;                 ///< As the communicator names it.
  std::optional<Timing> out_of_place;  ///< nullopt: the library has no such call.
  std::optional<Timing> in_place;
  /// What one rank copies, of blocks of this size, while all ranks copy. 0: not all share memory.
  double copy_gbps = 0;
};

/// What holds for all rows.
struct BenchFacts {
  std::string build;    ///< "hvdray 0.1.0 (abc1234)"
  std::string machine;  ///< Of rank 0: kernel and processor.
  std::string kernels;  ///< KernelName().
  std::string time;     ///< When it began, ISO 8601.
  int size = 1;
  int hosts = 1;
  int processors = 1;  ///< Of rank 0's host, as far as this process may use them.
  size_t copy_bytes = 0;
  double copy_least_gbps = 0;  ///< Of the slowest rank.
  double copy_most_gbps = 0;
  bool is_one_host() const { return hosts == 1; }
};

/// busbw = algbw * BusFactor(). Source: nccl-tests doc/PERFORMANCE.md; for gather and scatter its
/// src/gather.cu and src/scatter.cu.
double BusFactor(Collective kind, int size);

/// Nearest rank: the smallest value that at least `share` (0 to 1) of all do not exceed. `sorted`
/// is not empty.
double Percentile(std::span<const double> sorted, double share);

/// `times_us` is not empty.
Timing TimingOf(const BenchCase& what, int size, std::vector<double> times_us);

/// Wrong elements of all rows.
uint64_t WrongOf(std::span<const BenchRow> rows);
/// The first wrong result of `row`, as a line; empty if there is none.
std::string WrongText(const BenchRow& row);

/// Lines that begin with '#', as those of nccl-tests.
std::string TableFacts(const BenchFacts& facts);
/// The head of the table of one collective and backend.
std::string TableHead(const BenchFacts& facts, Collective kind, const std::string& backend);
std::string TableLine(const BenchFacts& facts, const BenchRow& row);
std::string TableFoot(std::span<const BenchRow> rows);

/// One object, indented.
std::string ResultsJson(const BenchFacts& facts, std::span<const BenchRow> rows);
/// A line for each timing, below a line of names.
std::string ResultsCsv(const BenchFacts& facts, std::span<const BenchRow> rows);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_RESULTS_H_
