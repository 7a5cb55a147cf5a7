// SPDX-License-Identifier: Apache-2.0
#include "collective/bench/tune.h"

#include <gtest/gtest.h>

#include <vector>

namespace hvdray {
namespace {

TEST(TuneTest, TheBoundaryIsWhereTheOtherOvertakes) {
  const std::vector<TunePoint> points{{1024, 1, 2}, {2048, 2, 3}, {4096, 5, 4}, {8192, 12, 6}};
  EXPECT_EQ(BestBoundary(points), 2048U);
}

TEST(TuneTest, OnePointThatLiesDoesNotMoveIt) {
  const std::vector<TunePoint> points{{1, 1, 2}, {2, 3, 2.9}, {4, 2, 4}, {8, 9, 3}, {16, 9, 9.1}};
  EXPECT_EQ(BestBoundary(points), 4U);
}

TEST(TuneTest, OneOfTheTwoMayAlwaysBeBetter) {
  EXPECT_EQ(BestBoundary(std::vector<TunePoint>{{1, 2, 1}, {2, 3, 1}}), 0U);
  EXPECT_EQ(BestBoundary(std::vector<TunePoint>{{1, 1, 2}, {2, 1, 3}}), 2U);
  EXPECT_EQ(BestBoundary({}), 0U);
}

}  // namespace
}  // namespace hvdray
