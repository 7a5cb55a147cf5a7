// SPDX-License-Identifier: Apache-2.0
#include "digits/model.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace hvdray::digits {

struct Model::Activations {
  std::vector<float> hidden;
  std::array<float, kClasses> probability{};
};

Model::Model(size_t hidden, uint32_t seed)
    : hidden_(hidden), parameters_(hidden * kPixels + hidden + kClasses * hidden + kClasses) {
  std::mt19937 random(seed);
  // He initialisation keeps the variance of activations constant across ReLU layers.
  std::normal_distribution<float> first(0.0F, std::sqrt(2.0F / kPixels));
  std::normal_distribution<float> second(0.0F, std::sqrt(2.0F / static_cast<float>(hidden)));
  float* p = parameters_.data();
  for (size_t i = 0; i < hidden * kPixels; ++i) *p++ = first(random);
  p += hidden;
  for (size_t i = 0; i < kClasses * hidden; ++i) *p++ = second(random);
}

void Model::Forward(const float* image, Activations& out) const {
  const float* w1 = parameters_.data();
  const float* b1 = w1 + hidden_ * kPixels;
  const float* w2 = b1 + hidden_;
  const float* b2 = w2 + kClasses * hidden_;
  out.hidden.resize(hidden_);
  for (size_t h = 0; h < hidden_; ++h) {
    float sum = b1[h];
    for (size_t i = 0; i < kPixels; ++i) sum += w1[h * kPixels + i] * image[i];
    out.hidden[h] = std::max(sum, 0.0F);
  }
  float largest = -INFINITY;
  for (size_t c = 0; c < kClasses; ++c) {
    float sum = b2[c];
    for (size_t h = 0; h < hidden_; ++h) sum += w2[c * hidden_ + h] * out.hidden[h];
    out.probability[c] = sum;
    largest = std::max(largest, sum);
  }
  float total = 0;
  for (float& p : out.probability) {
    p = std::exp(p - largest);
    total += p;
  }
  for (float& p : out.probability) p /= total;
}

double Model::AddGradient(const Dataset& data, std::span<const size_t> images,
                          std::span<float> gradient) const {
  const float* w2 = parameters_.data() + hidden_ * kPixels + hidden_;
  float* g1 = gradient.data();
  float* gb1 = g1 + hidden_ * kPixels;
  float* g2 = gb1 + hidden_;
  float* gb2 = g2 + kClasses * hidden_;
  Activations activations;
  std::vector<float> back(hidden_);
  double loss = 0;
  for (const size_t index : images) {
    const float* image = data.image(index);
    Forward(image, activations);
    const auto label = static_cast<size_t>(data.labels[index]);
    loss -= std::log(std::max(activations.probability[label], 1e-12F));
    std::fill(back.begin(), back.end(), 0.0F);
    for (size_t c = 0; c < kClasses; ++c) {
      const float error = activations.probability[c] - (c == label ? 1.0F : 0.0F);
      gb2[c] += error;
      for (size_t h = 0; h < hidden_; ++h) {
        g2[c * hidden_ + h] += error * activations.hidden[h];
        back[h] += error * w2[c * hidden_ + h];
      }
    }
    for (size_t h = 0; h < hidden_; ++h) {
      if (activations.hidden[h] <= 0) continue;
      gb1[h] += back[h];
      for (size_t i = 0; i < kPixels; ++i) g1[h * kPixels + i] += back[h] * image[i];
    }
  }
  return loss;
}

int Model::Predict(const float* image) const {
  Activations activations;
  Forward(image, activations);
  const auto best =
      std::max_element(activations.probability.begin(), activations.probability.end());
  return static_cast<int>(best - activations.probability.begin());
}

}  // namespace hvdray::digits
