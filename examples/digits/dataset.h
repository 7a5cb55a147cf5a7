// SPDX-License-Identifier: Apache-2.0
// Handwritten digits: 8x8 grey images and the digit that each shows (see DATA.md).
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

/// Images with their labels.
struct Dataset {
  std::vector<float> images;  ///< kPixels each, scaled to 0..1, one after the other.
  std::vector<int> labels;    ///< 0..9
  size_t size() const { return labels.size(); }
  const float* image(size_t i) const { return images.data() + i * kPixels; }
};

/// The images to train on and those to test with.
struct Split {
  Dataset train;
  Dataset test;
};

/// One image per line: 64 integers from 0 to 16 and the digit, separated by commas. `name`: for
/// messages. Errors: kSpecInvalid with `name`:line.
Result<Dataset> ParseDigits(std::string_view text, const std::string& name);

/// Every fifth image is for testing, so the split is the same on all ranks.
Split SplitDigits(const Dataset& all);

/// The images of `rank`: every `size`-th one of `all`. Shards differ by at most one image.
Dataset Shard(const Dataset& all, int rank, int size);

}  // namespace hvdray::digits

#endif  // HVDRAY_EXAMPLES_DIGITS_DATASET_H_
