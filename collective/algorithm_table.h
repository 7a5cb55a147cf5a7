// SPDX-License-Identifier: Apache-2.0
// From which size on which algorithm runs. docs/collective.md has the algorithms.
#ifndef HVDRAY_COLLECTIVE_ALGORITHM_TABLE_H_
#define HVDRAY_COLLECTIVE_ALGORITHM_TABLE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hvdray {

/// Bytes of a rank's buffer. The same on all ranks.
struct AlgorithmTable {
  /// Shared memory: up to it all ranks read all. Of two ranks, which have a processor each nearly
  /// always, so that an exchange costs less than to read twice; and of more.
  uint64_t shm_direct_of_two = uint64_t{8} << 10;
  uint64_t shm_direct = uint64_t{16} << 10;
  /// Network: up to it recursive doubling; then halving and doubling, until there is this much for
  /// each rank: then a ring.
  uint64_t network_doubling = uint64_t{16} << 10;
  uint64_t network_ring = uint64_t{64} << 10;
  /// Hierarchical: up to it one rank of each machine speaks for it, above, each for a slice.
  uint64_t slices = uint64_t{2} << 20;

  bool operator==(const AlgorithmTable&) const = default;
};

/// Lines of a name and a number of bytes; '#' begins a comment. What is not named keeps its
/// default. Errors: kSpecInvalid naming the line.
Result<AlgorithmTable> ParseAlgorithmTable(std::string_view text);
/// As ParseAlgorithmTable() takes it, every number with what it means.
std::string ToText(const AlgorithmTable& table);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ALGORITHM_TABLE_H_
