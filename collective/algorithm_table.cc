// SPDX-License-Identifier: Apache-2.0
#include "collective/algorithm_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

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

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const size_t start = text.find_first_not_of(kBlanks);
  if (start == std::string_view::npos) return {};
  return text.substr(start, text.find_last_not_of(kBlanks) - start + 1);
}

}  // namespace

Result<AlgorithmTable> ParseAlgorithmTable(std::string_view text) {
  AlgorithmTable table;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
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
    uint64_t bytes = 0;
    const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), bytes);
    if (value.empty() || error != std::errc() || rest != value.data() + value.size()) {
      return Status(
          ErrorCode::kSpecInvalid,
          fmt::format("line {}: {} must be a number of bytes, not \"{}\"", number, name, value));
    }
    table.*entry->number = bytes;
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
