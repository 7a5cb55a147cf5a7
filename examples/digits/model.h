// SPDX-License-Identifier: Apache-2.0
// A perceptron with one hidden layer. All parameters are in one flat array, so a data-parallel job
// averages a single buffer.
#ifndef HVDRAY_EXAMPLES_DIGITS_MODEL_H_
#define HVDRAY_EXAMPLES_DIGITS_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "digits/dataset.h"

namespace hvdray::digits {

/// Maps an image of kPixels to one of kClasses. Threads: one caller at a time.
class Model {
 public:
  /// Random weights; the same seed gives the same weights.
  Model(size_t hidden, uint32_t seed);

  std::vector<float>& parameters() { return parameters_; }
  const std::vector<float>& parameters() const { return parameters_; }

  /// Adds the gradient of the summed cross-entropy over the images at these indices of `data` to
  /// `gradient` (as many floats as there are parameters). Returns the summed loss.
  double AddGradient(const Dataset& data, std::span<const size_t> images,
                     std::span<float> gradient) const;
  /// The digit that the model recognises in `image` (kPixels floats).
  int Predict(const float* image) const;

 private:
  struct Activations;
  void Forward(const float* image, Activations& out) const;

  size_t hidden_;
  std::vector<float> parameters_;  // w1[hidden][kPixels], b1[hidden], w2[kClasses][hidden], b2
};

}  // namespace hvdray::digits

#endif  // HVDRAY_EXAMPLES_DIGITS_MODEL_H_
