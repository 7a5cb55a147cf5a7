// SPDX-License-Identifier: Apache-2.0
// The optical digits: 8x8 grey images and what digit each shows (see DATA.md).
#ifndef HVDRAY_EXAMPLES_DIGITS_DATASET_H_
#define HVDRAY_EXAMPLES_DIGITS_DATASET_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray::digits {

inline constexpr size_t kPixels = 64;
inline constexpr size_t kClasses = 10;

struct Dataset {
  std::vector<float> images;  ///< kPixels each, scaled to 0..1, one after the other.
  std::vector<int> labels;    ///< 0..9
  size_t size() const { return labels.size(); }
  const float* image(size_t i) const { return images.data() + i * kPixels; }
};

struct Split {
  Dataset train;
  Dataset test;
};

/// One image a line: 64 integers 0..16 and the digit, comma separated. Errors: kSpecInvalid with
/// `name`:line.
Result<Dataset> ParseDigits(std::string_view text, const std::string& name);

/// Every fifth image is for the test, so the split is the same on all ranks.
Split SplitDigits(const Dataset& all);

/// The part of `all` that belongs to `rank` of `size`: every size-th image. Parts differ by one.
Dataset ShardOf(const Dataset& all, int rank, int size);

}  // namespace hvdray::digits

#endif  // HVDRAY_EXAMPLES_DIGITS_DATASET_H_
