// SPDX-License-Identifier: Apache-2.0
#include "collective/algorithm_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace hvdray {
namespace {

struct Entry {
  std::string_view name;
  std::string_view meaning;
  uint64_t AlgorithmTable::*number;
};

constexpr std::array kEntries{
    Entry{"shm_direct_of_two", "2 ranks, memory: up to it each reads all",
          &AlgorithmTable::shm_direct_of_two},
    Entry{"shm_direct", "more ranks, memory: up to it each reads all", &AlgorithmTable::shm_direct},
    Entry{"network_doubling", "network: up to it recursive doubling",
          &AlgorithmTable::network_doubling},
    Entry{"network_ring", "network: from it, times ranks, a ring", &AlgorithmTable::network_ring},
    Entry{"slices", "machines of several ranks: above it each rank speaks for a slice",
          &AlgorithmTable::slices},
};

}  // namespace

Result<AlgorithmTable> ParseAlgorithmTable(std::string_view text) {
  AlgorithmTable table;
  int number = 0;
  for (const std::string_view whole : LinesOf(text)) {
    ++number;
    const std::string_view line = Trimmed(whole.substr(0, whole.find('#')));
    if (line.empty()) continue;
    const size_t space = std::min(line.find_first_of(" \t"), line.size());
    const std::string_view name = line.substr(0, space);
    const std::string_view value = Trimmed(line.substr(space));
    const auto* const entry = std::find_if(kEntries.begin(), kEntries.end(),
                                           [&](const Entry& e) { return e.name == name; });
    if (entry == kEntries.end()) {
      return Status(ErrorCode::kSpecInvalid,
                    fmt::format("line {}: unknown size \"{}\"", number, name));
    }
    const auto bytes = ParseInteger<uint64_t>(value);
    if (!bytes) {
      return Status(
          ErrorCode::kSpecInvalid,
          fmt::format("line {}: {} must be a number of bytes, not \"{}\"", number, name, value));
    }
    table.*entry->number = *bytes;
  }
  return table;
}

std::string ToText(const AlgorithmTable& table) {
  std::string text;
  for (const Entry& entry : kEntries) {
    text += fmt::format("{:<20}{:>12}  # {}\n", entry.name, table.*entry.number, entry.meaning);
  }
  return text;
}

}  // namespace hvdray
