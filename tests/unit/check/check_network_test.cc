// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/report/check_findings.h"
#include "tests/unit/check/sample_check.h"

namespace hvdray {
namespace {

const Status kSilence(ErrorCode::kConnectTimeout, "timed out after 5 s", "look for a firewall");

std::vector<std::string> TextsOf(const CheckFacts& facts) {
  std::vector<Finding> findings;
  JudgeNetwork(facts, findings);
  std::vector<std::string> texts;
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.kind, "network");
    EXPECT_TRUE(finding.is_error());
    EXPECT_FALSE(finding.hint.empty());
    EXPECT_FALSE(finding.hosts.empty());
    texts.push_back(finding.text);
  }
  return texts;
}

using Texts = std::vector<std::string>;

constexpr const char* kNode1 = "node1 (eth0 10.1.0.1)";
constexpr const char* kNode2 = "node2 (eth0 10.1.0.2)";
constexpr const char* kNode3 = "node3 (eth0 10.1.0.3)";

void ExpectTexts(const CheckFacts& facts, std::initializer_list<Facts> wanted) {
  const Texts texts = TextsOf(facts);
  ASSERT_EQ(texts.size(), wanted.size()) << testing::PrintToString(texts);
  for (size_t i = 0; i < texts.size(); ++i) ExpectSays(texts[i], wanted.begin()[i]);
}

TEST(CheckNetworkTest, OpenWaysAreNoFinding) { EXPECT_EQ(TextsOf(GoodFacts(4)), Texts{}); }

TEST(CheckNetworkTest, OneClosedWayNamesBothEndsAndTheStage) {
  CheckFacts facts = GoodFacts(3);
  facts.closed_ways = {{0, 1, kSilence}};
  ExpectTexts(facts, {{kNode1, "cannot reach", kNode2, kSilence.message()}});
}

TEST(CheckNetworkTest, TwoThatDoNotSeeEachOtherAreOneFinding) {
  CheckFacts facts = GoodFacts(3);
  facts.closed_ways = {{0, 1, kSilence}, {1, 0, kSilence}};
  ExpectTexts(facts, {{kNode1, kNode2, "each other", kSilence.message()}});
}

TEST(CheckNetworkTest, AHostThatNobodyReachesIsNamedOnce) {
  CheckFacts facts = GoodFacts(4);
  facts.closed_ways = {{0, 2, kSilence}, {1, 2, kSilence}, {3, 2, kSilence}, {0, 1, kSilence}};
  ExpectTexts(facts, {{"no other host reaches", kNode3, kSilence.message()},
                      {kNode1, "cannot reach", kNode2, kSilence.message()}});
}

TEST(CheckNetworkTest, AHostThatReachesNobodyIsNamedOnce) {
  CheckFacts facts = GoodFacts(3);
  facts.closed_ways = {{2, 0, kSilence}, {2, 1, kSilence}};
  ExpectTexts(facts, {{kNode3, "reaches no other", kSilence.message()}});
}

TEST(CheckNetworkTest, HostsThatWereLostDoNotCountAmongAll) {
  CheckFacts facts = GoodFacts(4);
  facts.hosts[3].lost = Status(ErrorCode::kHostRefused, "refused");
  facts.closed_ways = {{0, 2, kSilence}, {1, 2, kSilence}};
  ExpectTexts(facts, {{"no other host reaches", kNode3, kSilence.message()}});
}

TEST(CheckNetworkTest, AnAgentWithoutAPortOrAnAnswerIsNamedByItself) {
  CheckFacts facts = GoodFacts(3);
  facts.closed_ways = {{1, 1, Status(ErrorCode::kOutOfResources, "its agent has no port")}};
  ExpectTexts(facts, {{"host node2", facts.closed_ways[0].why.message()}});
}

TEST(CheckNetworkTest, OfManyPairsTenAreNamed) {
  CheckFacts facts = GoodFacts(40);
  for (size_t i = 0; i < 30; ++i) facts.closed_ways.push_back({i, i + 1, kSilence});
  const Texts texts = TextsOf(facts);
  ASSERT_EQ(texts.size(), 11U);
  ExpectSays(texts.back(), {"20 more pairs", "--json"});
}

}  // namespace
}  // namespace hvdray
