// SPDX-License-Identifier: Apache-2.0
// What `hvdray bench` measures: which collectives, types, reductions, roots and sizes. Pure.
#ifndef HVDRAY_COLLECTIVE_BENCH_SWEEP_H_
#define HVDRAY_COLLECTIVE_BENCH_SWEEP_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "collective/communicator.h"

namespace hvdray {

/// As typed. Sizes are bytes with an optional K, M or G (powers of 1024); lists have commas, and
/// "all" stands for everything there is.
struct SweepWords {
  std::string min_bytes = "8";
  std::string max_bytes = "32M";
  std::string step_factor = "2";
  std::string step_bytes;  ///< Empty: sizes grow by step_factor.
  std::string collectives = "all_reduce";
  std::string dtypes = "float32";
  std::string ops = "sum";
  std::string roots = "0";
};

struct Sweep {
  std::vector<uint64_t> sizes;  ///< Bytes, ascending.
  /// kSend stands for send_recv: every rank sends to the next one and receives from the one before.
  std::vector<Collective> collectives;
  std::vector<DataType> dtypes;
  std::vector<ReduceOp> ops;
  std::vector<int> roots;  ///< Empty: every rank in turn.
};

/// One row of a table.
struct BenchCase {
  Collective kind = Collective::kAllReduce;
  DataType dtype = DataType::kFloat32;
  ReduceOp op = ReduceOp::kSum;  ///< Of reductions.
  int root = 0;                  ///< Of those with a root.
  size_t count = 0;              ///< Elements, as the method of that name counts them.
  size_t bytes = 0;              ///< Of the larger of the two buffers.
};

/// "all_reduce", …, "send_recv".
std::string_view BenchName(Collective kind);
/// Has a root; send_recv has none.
bool IsRooted(Collective kind);

/// Errors: kUsage naming the option; for an unknown name also the possible ones.
Result<Sweep> ParseSweep(const SweepWords& words);

/// The cases for `size` ranks, grouped by collective; sizes vary fastest. A size that the ranks or
/// elements do not divide is rounded down, but to one element at least; where that gives a size
/// twice, it is measured once. Leaves out reductions that a type does not have, and send_recv of
/// one rank. Errors: kUsage for a root that is no rank, for too many cases, and for none.
Result<std::vector<BenchCase>> CasesOf(const Sweep& sweep, int size);

/// Of the largest case.
size_t MaxBytes(const std::vector<BenchCase>& cases);

/// "512", "1 KiB", "1.5 GiB".
std::string SizeText(uint64_t bytes);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_SWEEP_H_
