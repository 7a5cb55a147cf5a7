// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "cluster/ssh/ssh_config.h"

namespace hvdray {
namespace {

TEST(PatternTest, StarAndQuestionMarkMatchAsInSshsFiles) {
  EXPECT_TRUE(MatchesPattern("node7", "node7"));
  EXPECT_TRUE(MatchesPattern("*", ""));
  EXPECT_TRUE(MatchesPattern("*.example.com", "a.b.example.com"));
  EXPECT_TRUE(MatchesPattern("10.0.?.*", "10.0.1.77"));
  EXPECT_TRUE(MatchesPattern("a*b*c", "aXbYbZc"));
  EXPECT_FALSE(MatchesPattern("node", "node7"));
  EXPECT_FALSE(MatchesPattern("node7", "node"));
  EXPECT_FALSE(MatchesPattern("?", ""));
  EXPECT_FALSE(MatchesPattern("*.example.com", "example.com"));
  EXPECT_FALSE(MatchesPattern("", "x"));
  EXPECT_TRUE(MatchesPattern("", ""));
}

TEST(PatternTest, ManyStarsCostNoExponentialTime) {
  std::string pattern;
  for (int i = 0; i < 50; ++i) pattern += "*a";
  EXPECT_FALSE(MatchesPattern(pattern + "b", std::string(5000, 'a')));
}

}  // namespace
}  // namespace hvdray
