// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/memberships.h"

#include <gtest/gtest.h>

#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/golden.h"
#include "tests/unit/report/sample_elastic.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

effect::MembershipChanged Change(Generation generation, int size) {
  return {.generation = generation,
          .size = size,
          .changes = {{"a", 1, ""}},
          .stood_still = milliseconds(10),
          .is_counted = true};
}

std::vector<MembershipRecord> Rows(int count) {
  MembershipTable table;
  for (int i = 1; i <= count; ++i) {
    table.OnEffect(Change(static_cast<Generation>(i), i), At(i));
  }
  return table.rows();
}

std::string Text(std::span<const MembershipRecord> rows, bool is_verbose) {
  std::string text;
  for (const std::string& line : MembershipLines(rows, At(0), is_verbose)) text += line + "\n";
  return text;
}

TEST(MembershipTableTest, EachChangeIsARowWithItsTimes) {
  const std::vector<MembershipRecord> rows = ElasticMemberships();
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].generation, 2u);
  EXPECT_EQ(rows[1].size, 3);
  EXPECT_EQ(rows[1].when, At(1.7));
  EXPECT_TRUE(rows[1].is_counted);
  EXPECT_EQ(rows[2].changes[0].workers, -1);
  EXPECT_EQ(TotalStandstill(rows), milliseconds(350));
}

TEST(MembershipTableTest, BrokenConnectionsBelongToTheChangeThatFollows) {
  const std::vector<MembershipRecord> rows = ElasticMemberships();
  EXPECT_EQ(rows[1].connections_shut, 0u);
  EXPECT_EQ(rows[2].connections_shut, 5u);
  EXPECT_EQ(rows[2].connections_refused, 1u);
  EXPECT_EQ(rows[2].break_took, std::chrono::microseconds(1500));
}

TEST(MembershipTableTest, AnAnswerThatComesLateFindsItsChangeInSpiteOfGaps) {
  MembershipTable table;
  for (const Generation generation : {1u, 4u, 5u}) table.OnEffect(Change(generation, 2), At(1));
  table.OnConnectionsBroken(1, {.shut = 7});
  EXPECT_EQ(table.rows()[1].connections_shut, 7u);
  EXPECT_EQ(table.rows()[2].connections_shut, 0u);
}

TEST(MembershipTableTest, AJobThatChangesForWeeksKeepsItsFirstAndItsLatestRows) {
  const std::vector<MembershipRecord> rows = Rows(10'010);
  ASSERT_EQ(rows.size(), 10'000u);
  EXPECT_EQ(rows.front().generation, 1u);
  EXPECT_EQ(rows[1].generation, 12u);
  EXPECT_EQ(rows.back().generation, 10'010u);
}

TEST(MembershipLinesTest, AJobThatNeverChangedSaysNothing) {
  EXPECT_EQ(Text({}, true), "");
  EXPECT_EQ(Text(Rows(1), true), "");
}

TEST(MembershipLinesTest, OneLineSumsUp) {
  const std::string text = Text(ElasticMemberships(), false);
  EXPECT_EQ(text.find('\n'), text.size() - 1);
  ExpectSays(text, {"changed 2 times", "2 to 3 workers", "0.35 s"});
}

TEST(MembershipLinesTest, OneChangeAndOneSizeAreWordedSo) {
  MembershipTable table;
  table.OnEffect(Change(1, 1), At(1));
  table.OnEffect(Change(2, 1), At(2));
  ExpectSays(Text(table.rows(), false), {"changed 1 time", "1 worker", "0.02 s"});
}

TEST(MembershipLinesTest, VerboseIsATable) {
  std::vector<MembershipRecord> rows = ElasticMemberships();
  rows[0].changes.clear();
  for (int i = 0; i < 300; ++i) rows[0].changes.push_back({"node" + std::to_string(i), 2, ""});
  rows[2].changes.push_back({"a", 0, "its worker was a victim"});
  ExpectGolden("tests/golden/report/memberships.txt", Text(rows, true));
}

TEST(MembershipLinesTest, OnlyTheLastTwentyAreShown) {
  const std::string text = Text(Rows(500), true);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 23);
  EXPECT_TRUE(NamesFacts(text, {"480 before", "--report"})) << text;
  EXPECT_EQ(text.find("480.00 s"), std::string::npos) << text;
  EXPECT_NE(text.find("481.00 s"), std::string::npos) << text;
}

}  // namespace
}  // namespace hvdray
