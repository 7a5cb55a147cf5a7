// SPDX-License-Identifier: Apache-2.0
// Every collective over any communicator, against a reference computed here in wider types. Run by
// threads of one process (unit tests) and by processes under `hvdray run` (tests/integration).
#ifndef HVDRAY_TESTS_FAKES_COLLECTIVE_SUITE_H_
#define HVDRAY_TESTS_FAKES_COLLECTIVE_SUITE_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "collective/communicator.h"

namespace hvdray {

inline constexpr DataType kDataTypes[] = {
    DataType::kInt8,     DataType::kInt16,   DataType::kInt32,
    DataType::kInt64,    DataType::kUint8,   DataType::kFloat16,
    DataType::kBfloat16, DataType::kFloat32, DataType::kFloat64};
inline constexpr ReduceOp kReduceOps[] = {ReduceOp::kSum,   ReduceOp::kAverage, ReduceOp::kMin,
                                          ReduceOp::kMax,   ReduceOp::kProduct, ReduceOp::kBitAnd,
                                          ReduceOp::kBitOr, ReduceOp::kBitXor};

/// Writes a small whole number as an element; reads one back. Independent of the library.
void StoreNumber(void* base, size_t index, DataType dtype, double value);
double LoadNumber(const void* base, size_t index, DataType dtype);

/// What buffers are made of; the tests read and write it.
struct SuiteMemory {
  size_t front = 0;  ///< Where in an allocation a buffer begins.
  std::function<std::shared_ptr<char>(size_t bytes)> allocate;
};
/// Buffers at odd addresses.
SuiteMemory HostMemory();

/// All ranks call it with the same counts. Returns what was wrong, a line each; empty: nothing.
std::vector<std::string> CheckCollectives(Communicator& communicator,
                                          std::span<const size_t> counts,
                                          const SuiteMemory& memory = HostMemory());

/// Reduces every type by every operation, by all-reduce, reduce and reduce-scatter. `bytes`: of a
/// rank's buffer, about. All ranks call it alike; as CheckCollectives().
std::vector<std::string> CheckReductions(Communicator& communicator, size_t bytes);

}  // namespace hvdray

#endif  // HVDRAY_TESTS_FAKES_COLLECTIVE_SUITE_H_
