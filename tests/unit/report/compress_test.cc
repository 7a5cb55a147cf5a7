// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/report/run_ending.h"

namespace hvdray {
namespace {

TEST(CompressRanksTest, RunsOfThreeOrMoreBecomeRanges) {
  EXPECT_EQ(CompressRanks({0, 1, 2, 3, 5}), "0-3,5");
  EXPECT_EQ(CompressRanks({5}), "5");
  EXPECT_EQ(CompressRanks({0, 1}), "0,1");
  EXPECT_EQ(CompressRanks({0, 1, 3, 4, 5}), "0,1,3-5");
  EXPECT_EQ(CompressRanks({}), "");
}

TEST(CompressRanksTest, OrderAndDoublesDoNotMatter) {
  EXPECT_EQ(CompressRanks({7, 3, 5, 4, 3, 7}), "3-5,7");
}

TEST(CompressRanksTest, AThousandRanksAreOneRange) {
  std::vector<int> ranks;
  for (int rank = 1199; rank >= 0; --rank) ranks.push_back(rank);
  EXPECT_EQ(CompressRanks(ranks), "0-1199");
}

TEST(RanksTextTest, OneRankIsSingular) {
  EXPECT_EQ(RanksText({12}), "rank 12");
  EXPECT_EQ(RanksText({1, 2}), "ranks 1,2");
  EXPECT_EQ(RanksText({1, 2, 3}), "ranks 1-3");
}

}  // namespace
}  // namespace hvdray
