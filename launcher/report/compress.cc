// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/compress.h"

#include <fmt/format.h>

#include <algorithm>

namespace hvdray {

std::string CompressRanks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (last == i + 1) last = i;
    if (!text.empty()) text += ',';
    text += fmt::format("{}", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

std::string RanksText(std::vector<int> ranks) {
  const std::string text = CompressRanks(std::move(ranks));
  const bool is_one = text.find_first_of(",-") == std::string::npos;
  return fmt::format("{} {}", is_one ? "rank" : "ranks", text);
}

}  // namespace hvdray
