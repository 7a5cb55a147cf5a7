// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <vector>

#include "base/text.h"

namespace hvdray {
namespace {

std::string NearestOf(std::string_view word, const std::vector<std::string_view>& candidates) {
  return Nearest(word, candidates);
}

TEST(NearestTest, FindsOneSlipOfEachKind) {
  const std::vector<std::string_view> words = {"verbose", "timeout", "hostfile", "report"};
  EXPECT_EQ(NearestOf("verbos", words), "verbose");     // left out
  EXPECT_EQ(NearestOf("timeoout", words), "timeout");   // doubled
  EXPECT_EQ(NearestOf("hostfike", words), "hostfile");  // wrong key
  EXPECT_EQ(NearestOf("repotr", words), "report");      // swapped
}

TEST(NearestTest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(NearestOf("banana", {"verbose", "timeout"}), "");
  EXPECT_EQ(NearestOf("x", {}), "");
  EXPECT_EQ(NearestOf("", {"verbose"}), "");
}

TEST(NearestTest, LimitIsAThirdOfTheLongerWordRoundedUp) {
  EXPECT_EQ(NearestOf("abc", {"abd"}), "abd");
  EXPECT_EQ(NearestOf("abc", {"axy"}), "");
  EXPECT_EQ(NearestOf("abcd", {"abxy"}), "abxy");
}

TEST(NearestTest, TakesTheNearestAndOfEqualsTheFirst) {
  EXPECT_EQ(NearestOf("host", {"hosts-x", "hosts", "hose"}), "hosts");
  EXPECT_EQ(NearestOf("host", {"hose", "hosts"}), "hose");
}

TEST(NearestTest, SwapOfNeighboursCountsOnce) { EXPECT_EQ(NearestOf("ab", {"ba"}), "ba"); }

TEST(NearestTest, LongHostileWordIsNoTrouble) {
  EXPECT_EQ(NearestOf(std::string(2000, 'a'), {"verbose", "timeout"}), "");
}

}  // namespace
}  // namespace hvdray
