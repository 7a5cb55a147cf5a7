// SPDX-License-Identifier: Apache-2.0
// Inputs whose results are exact in every type and in any order of reduction, and the comparison
// with them. Values repeat with a period that is a prime, so a block that lands in the wrong place
// is seen. Pure.
#ifndef HVDRAY_COLLECTIVE_BENCH_PATTERNS_H_
#define HVDRAY_COLLECTIVE_BENCH_PATTERNS_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "collective/bench/sweep.h"
#include "collective/communicator.h"

namespace hvdray {

/// One period of values in the bytes of `dtype`.
class Pattern {
 public:
  static constexpr size_t kPeriod = 97;

  /// What `rank` of `size` puts into a reduction.
  static Pattern Input(ReduceOp op, DataType dtype, int rank, int size);
  /// What the reduction over all ranks makes of that.
  static Pattern Reduced(ReduceOp op, DataType dtype, int size);
  /// What rank `from` sends to rank `to`.
  static Pattern Letter(DataType dtype, int from, int to);

  /// Writes elements `first` to first + count - 1.
  void Fill(char* to, size_t first, size_t count) const;
  /// How many of the elements at `at` are not the elements `first` to first + count - 1.
  uint64_t CountWrong(const char* at, size_t first, size_t count) const;

 private:
  explicit Pattern(DataType dtype) : element_bytes_(SizeOf(dtype)) {}
  void Append(DataType dtype, int64_t value);
  /// Calls use(bytes, offset, count) for runs that lie in one piece.
  template <typename Use>
  void ForEachRun(size_t first, size_t count, const Use& use) const;

  size_t element_bytes_;
  std::string bytes_;
};

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_BENCH_PATTERNS_H_
