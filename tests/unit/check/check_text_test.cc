// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/check_text.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/json.h"
#include "tests/fakes/golden.h"
#include "tests/unit/check/sample_check.h"

namespace hvdray {
namespace {

std::string Text(const CheckFacts& facts) { return CheckText(facts, FindFindings(facts)); }

Json Parsed(const CheckFacts& facts) {
  Result<Json> json = ParseJson(CheckJson(facts, FindFindings(facts)));
  EXPECT_TRUE(json.ok()) << json.status().ToString();
  return json.ok() ? *json : Json();
}

TEST(CheckTextTest, IsAsInTheGoldenFiles) {
  ExpectGolden("tests/golden/check/well.txt", Text(GoodFacts()));
  ExpectGolden("tests/golden/check/faults.txt", Text(BadFacts()));
  ExpectGolden("tests/golden/check/faults.json", CheckJson(BadFacts(), FindFindings(BadFacts())));
}

TEST(CheckTextTest, TwoHundredLikeHostsFitOnOneScreen) {
  const std::string text = Text(GoodFacts(200));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 24) << text;
  EXPECT_NE(text.find("node[1-200]"), std::string::npos);
}

TEST(CheckTextTest, HostsOfManyKindsFitOnTwo) {
  CheckFacts facts = GoodFacts(60);
  for (size_t i = 0; i < facts.hosts.size(); ++i) {
    facts.hosts[i].inspection->kernel += std::to_string(i);
  }
  const std::string text = Text(facts);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 72) << text;
  EXPECT_NE(text.find("node[6-60]: further"), std::string::npos) << text;
}

TEST(CheckTextTest, LostHostsAndThoseWithoutAnAnswerHaveNoEmptyLines) {
  CheckFacts facts = GoodFacts();
  facts.hosts[0].lost = Status(ErrorCode::kHostRefused, "host node1: refused");
  facts.hosts[1].inspection.reset();
  facts.hosts[1].clock.reset();
  facts.hosts[1].nic.clear();
  const std::string text = Text(facts);
  EXPECT_EQ(text.find("\n\n\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 2 hosts ready"), std::string::npos) << text;
  const std::string last = text.substr(text.rfind('\n', text.size() - 2) + 1);
  ExpectSays(last, {"not start", "2 errors", "0 warnings"});
}

TEST(CheckTextTest, TheWayIsProvedOnlyWhenItWasTried) {
  EXPECT_NE(Text(GoodFacts(2)).find("reach each other"), std::string::npos);
  EXPECT_EQ(Text(GoodFacts(1)).find("reach each other"), std::string::npos);
}

TEST(CheckJsonTest, SaysWhatTheExitCodeSays) {
  const Json well = Parsed(GoodFacts());
  EXPECT_EQ(well["schema"], kCheckSchema);
  EXPECT_EQ(well["would_start"], true);
  EXPECT_EQ(well["exit_code"], 0);
  EXPECT_TRUE(well["findings"].empty());
  const Json bad = Parsed(BadFacts());
  EXPECT_EQ(bad["would_start"], false);
  EXPECT_EQ(bad["exit_code"], 125);
  EXPECT_EQ(bad["hosts"].size(), 5U);
  EXPECT_EQ(bad["hosts"][1]["ready"], false);
  EXPECT_EQ(bad["hosts"][1]["error"]["code"], "HVD-E0202");
  EXPECT_TRUE(bad["hosts"][1]["facts"].is_null());
  EXPECT_EQ(bad["closed_ways"][0]["from"], "node1");
  EXPECT_EQ(bad["hosts"][4]["clock"]["offset_s"], -3.2);
}

}  // namespace
}  // namespace hvdray
