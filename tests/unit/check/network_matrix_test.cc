// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/network_matrix.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/fakes/golden.h"
#include "tests/unit/check/sample_check.h"

namespace hvdray {
namespace {

std::vector<Finding> Judged(const CheckFacts& facts) {
  std::vector<Finding> findings;
  JudgePairs(facts, findings);
  return findings;
}

/// All pairs alike, but for those with `slow`.
CheckFacts WithSlowHost(int hosts, size_t slow) {
  CheckFacts facts = GoodFacts(hosts);
  for (MeasuredPair& pair : facts.pairs) {
    if (pair.from == slow || pair.to == slow) pair = Measured(pair.from, pair.to, 50.2, 0.11);
  }
  return facts;
}

TEST(NetworkMatrixTest, IsAsInTheGoldenFiles) {
  CheckFacts facts = WithSlowHost(4, 3);
  facts.hosts[1].name = "a-host-with-a-name-that-is-long";
  facts.pairs[0].back = 0.44e9;
  facts.pairs[1] = {.from = 0, .to = 2, .why = Status(ErrorCode::kConnectTimeout, "timed out")};
  ExpectGolden("tests/golden/check/matrix.txt", MatrixText(facts, Shades::kNone));
  ExpectGolden("tests/golden/check/matrix_shaded.txt", MatrixText(facts, Shades::kAnsi));
}

TEST(NetworkMatrixTest, TwoHostsAreOneLineAndManyHaveNoMatrix) {
  ExpectSays(MatrixText(GoodFacts(2), Shades::kNone),
             {"node1", "node2", "1.1 GB/s", "back", "0.06 ms"});
  const std::string many = MatrixText(GoodFacts(60), Shades::kNone);
  EXPECT_EQ(std::count(many.begin(), many.end(), '\n'), 2) << many;
  ExpectSays(many, {"60 hosts", "1.1 GB/s", "0.06 ms", "--json"});
  EXPECT_EQ(MatrixText(GoodFacts(1), Shades::kNone), "");
}

TEST(NetworkMatrixTest, NoCellTouchesTheNext) {
  CheckFacts facts = GoodFacts(3);
  facts.pairs = {Measured(0, 1, 0.0085, 0.0016), Measured(0, 2, 12345, 0.00001),
                 Measured(1, 2, 0.00001, 123.4)};
  const std::string text = MatrixText(facts, Shades::kNone);
  for (const char* cell : {" 0.0016", " <.0001", " 123", " 0.0085", " 12345"}) {
    EXPECT_NE(text.find(cell), std::string::npos) << text;
  }
}

TEST(MediansTest, OneSlowHostOfThreeIsNotTheRule) {
  const NetworkMedians medians = Medians(WithSlowHost(3, 0).pairs);
  EXPECT_DOUBLE_EQ(medians.bytes_per_s, 1.1e9);
  EXPECT_DOUBLE_EQ(medians.round_trip_s, 60e-6);
  EXPECT_EQ(Medians({}).bytes_per_s, 0);
}

TEST(SlowPairsTest, AHostThatIsSlowWithAllOthersIsOneFinding) {
  for (const int hosts : {3, 8}) {
    const std::vector<Finding> findings = Judged(WithSlowHost(hosts, 2));
    ASSERT_EQ(findings.size(), 1U) << findings[1].text;
    EXPECT_FALSE(findings[0].is_error());
    EXPECT_EQ(findings[0].hosts, std::vector<std::string>{"node3"});
    ExpectFinding(findings[0], "slow",
                  {"host node3", "every other", "0.11 GB/s, 0.1 of the median 1.1",
                   "round trip 50 ms, 840 times the median 0.06 ms"});
  }
}

TEST(SlowPairsTest, OneSlowWayIsNamedWithHowFarItIsFromTheMedian) {
  CheckFacts facts = GoodFacts(5);
  for (MeasuredPair& pair : facts.pairs) {
    if (pair.from == 1 && pair.to == 4) pair.there = 0.11e9;
  }
  const std::vector<Finding> findings = Judged(facts);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].text, "node2 → node5: 0.11 GB/s, 0.1 of the median 1.1");
  EXPECT_EQ(findings[0].hosts, (std::vector<std::string>{"node2", "node5"}));
}

TEST(SlowPairsTest, ManySlowWaysAreOneFindingBehindTheFirstTen) {
  CheckFacts facts = GoodFacts(30);
  for (size_t i = 0; i < facts.pairs.size(); i += 20) facts.pairs[i].back = 0.2e9;
  const std::vector<Finding> findings = Judged(facts);
  ASSERT_EQ(findings.size(), 11U);
  ExpectSays(findings[10].text, {"12 more ways", "--json"});
}

TEST(SlowPairsTest, TwoHostsAndSmallDifferencesAreNoFinding) {
  EXPECT_TRUE(Judged(WithSlowHost(2, 1)).empty());
  CheckFacts facts = GoodFacts(4);
  facts.pairs[0] = Measured(0, 1, 0.9, 0.6);
  EXPECT_TRUE(Judged(facts).empty());
}

TEST(SlowPairsTest, APairWithoutNumbersIsAnErrorThatNamesBothAndTheirAddresses) {
  CheckFacts facts = GoodFacts(3);
  facts.pairs[0].why = Status(ErrorCode::kHostRefused, "connection refused", "look");
  facts.pairs[2] = {.from = 2, .to = 2, .why = Status(ErrorCode::kDeadlineExceeded, "no answer")};
  const std::vector<Finding> findings = Judged(facts);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].code, ErrorCode::kHostRefused);
  ExpectFinding(findings[0], "network",
                {"node1", "eth0 10.1.0.1", "node2", "10.1.0.2", "connection refused"});
  EXPECT_EQ(findings[1].hosts, std::vector<std::string>{"node3"});
  ExpectFinding(findings[1], "network", {"host node3", "10.1.0.3", "no answer"});
}

TEST(SlowPairsTest, AgentsThatCannotMeasureAreOneWarning) {
  CheckFacts facts = GoodFacts(3);
  facts.hosts[0].facts.measures = facts.hosts[1].facts.measures = false;
  facts.pairs.clear();
  const std::vector<Finding> findings = Judged(facts);
  ASSERT_EQ(findings.size(), 1U);
  ExpectFinding(findings[0], "unmeasured", {"node[1-2]", "does not measure"});
  EXPECT_FALSE(findings[0].is_error());
  facts.is_probed = false;
  EXPECT_TRUE(Judged(facts).empty());
}

}  // namespace
}  // namespace hvdray
