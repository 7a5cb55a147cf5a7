// SPDX-License-Identifier: Apache-2.0
#include "digits/dataset.h"

#include <fmt/format.h>

#include <charconv>

#include "base/text.h"

namespace hvdray::digits {
namespace {

constexpr int kMaxGrey = 16;

// Reads an integer and the separator after it; false unless the integer is from 0 to `max`.
bool TakeInt(std::string_view& line, int max, int& value) {
  const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), value);
  if (error != std::errc() || value < 0 || value > max) return false;
  line.remove_prefix(static_cast<size_t>(end - line.data()));
  if (line.empty()) return true;
  if (line.front() != ',') return false;
  line.remove_prefix(1);
  return true;
}

void Append(const Dataset& from, size_t i, Dataset& to) {
  to.images.insert(to.images.end(), from.image(i), from.image(i) + kPixels);
  to.labels.push_back(from.labels[i]);
}

}  // namespace

Result<Dataset> ParseDigits(std::string_view text, const std::string& name) {
  Dataset data;
  size_t number = 0;
  for (std::string_view line : LinesOf(text)) {
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    bool is_good = true;
    int value = 0;
    for (size_t i = 0; i < kPixels && is_good; ++i) {
      is_good = TakeInt(line, kMaxGrey, value);
      data.images.push_back(static_cast<float>(value) / kMaxGrey);
    }
    is_good = is_good && TakeInt(line, kClasses - 1, value) && line.empty();
    if (!is_good) {
      return Status(
          ErrorCode::kSpecInvalid,
          fmt::format("{}:{}: expected 64 pixels from 0 to 16 and a digit", name, number));
    }
    data.labels.push_back(value);
  }
  if (data.size() == 0) return Status(ErrorCode::kSpecInvalid, fmt::format("{}: no image", name));
  return data;
}

Split SplitDigits(const Dataset& all) {
  constexpr size_t kTestEvery = 5;
  Split split;
  for (size_t i = 0; i < all.size(); ++i) {
    Append(all, i, i % kTestEvery == 0 ? split.test : split.train);
  }
  return split;
}

Dataset Shard(const Dataset& all, int rank, int size) {
  Dataset shard;
  for (size_t i = static_cast<size_t>(rank); i < all.size(); i += static_cast<size_t>(size)) {
    Append(all, i, shard);
  }
  return shard;
}

}  // namespace hvdray::digits
