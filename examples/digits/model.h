// SPDX-License-Identifier: Apache-2.0
// A multi-layer perceptron with one hidden layer, as one flat array of parameters: what a
// data-parallel job has to average is then one buffer.
#ifndef HVDRAY_EXAMPLES_DIGITS_MODEL_H_
#define HVDRAY_EXAMPLES_DIGITS_MODEL_H_

#include <cstdint>
#include <span>
#include <vector>

#include "digits/dataset.h"

namespace hvdray::digits {

class Model {
 public:
  /// Random weights, the same for the same seed.
  Model(size_t hidden, uint32_t seed);

  std::vector<float>& parameters() { return parameters_; }
  const std::vector<float>& parameters() const { return parameters_; }

  /// Adds the gradient of the summed cross-entropy of these images to `gradient` (as many floats as
  /// parameters) and returns the summed loss.
  double AddGradient(const Dataset& data, std::span<const size_t> images,
                     std::span<float> gradient) const;
  /// The digit that the model sees.
  int Predict(const float* image) const;

 private:
  struct Activations;
  void Forward(const float* image, Activations& out) const;

  size_t hidden_;
  std::vector<float> parameters_;  // w1[hidden][kPixels], b1[hidden], w2[kClasses][hidden], b2
};

}  // namespace hvdray::digits

#endif  // HVDRAY_EXAMPLES_DIGITS_MODEL_H_
