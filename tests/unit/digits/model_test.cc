// SPDX-License-Identifier: Apache-2.0
#include "digits/model.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace hvdray::digits {
namespace {

Dataset TwoImages() {
  Dataset data;
  for (size_t i = 0; i < 2 * kPixels; ++i) {
    data.images.push_back(static_cast<float>(i % 17) / 16.0F);
  }
  data.labels = {3, 8};
  return data;
}

TEST(ModelTest, TheSameSeedGivesTheSameWeights) {
  EXPECT_EQ(Model(8, 5).parameters(), Model(8, 5).parameters());
  EXPECT_NE(Model(8, 5).parameters(), Model(8, 6).parameters());
}

TEST(ModelTest, TheGradientIsTheSlopeOfTheLoss) {
  const Dataset data = TwoImages();
  const std::vector<size_t> both = {0, 1};
  Model model(6, 1);
  std::vector<float> gradient(model.parameters().size());
  model.AddGradient(data, both, gradient);
  std::vector<float> ignored(gradient.size());
  constexpr float kStep = 1e-2F;
  for (size_t i = 0; i < gradient.size(); i += 7) {
    const float before = model.parameters()[i];
    model.parameters()[i] = before + kStep;
    const double up = model.AddGradient(data, both, ignored);
    model.parameters()[i] = before - kStep;
    const double down = model.AddGradient(data, both, ignored);
    model.parameters()[i] = before;
    EXPECT_NEAR(gradient[i], (up - down) / (2 * kStep), 2e-2) << "parameter " << i;
  }
}

TEST(ModelTest, DescentLearnsTwoImages) {
  const Dataset data = TwoImages();
  const std::vector<size_t> both = {0, 1};
  Model model(16, 1);
  for (int step = 0; step < 300; ++step) {
    std::vector<float> gradient(model.parameters().size());
    model.AddGradient(data, both, gradient);
    for (size_t i = 0; i < gradient.size(); ++i) model.parameters()[i] -= 0.05F * gradient[i];
  }
  EXPECT_EQ(model.Predict(data.image(0)), 3);
  EXPECT_EQ(model.Predict(data.image(1)), 8);
}

}  // namespace
}  // namespace hvdray::digits
