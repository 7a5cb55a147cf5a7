// SPDX-License-Identifier: Apache-2.0
// docs/elastic.md draws the states of the driver and explains each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/fd.h"
#include "launcher/driver/states.h"
#include "tests/unit/report/doc_tables.h"

namespace hvdray {
namespace {

constexpr const char* kPage = "docs/elastic.md";

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

TEST(ElasticChartTest, ThePageHasExactlyTheChartOfTheTable) {
  const Result<std::string> page = ReadFile(kPage);
  ASSERT_TRUE(page.ok()) << page.status().ToString();
  const Result<std::string> drawn = WithElasticChart(*page);
  ASSERT_TRUE(drawn.ok()) << drawn.status().ToString();
  EXPECT_EQ(*page, *drawn) << "update with: hvdray-gen-cli . (in the source directory)";
}

TEST(ElasticChartTest, EachTransitionIsOneArrow) {
  const std::vector<std::string> lines = LinesOf(ElasticChart());
  for (const ElasticTransition& arrow : ElasticTransitions()) {
    const std::string line =
        "    " + std::string(Name(arrow.from)) + " --> " + std::string(Name(arrow.to)) + ": ";
    const auto is_it = [&line](const std::string& one) { return one.starts_with(line); };
    EXPECT_EQ(std::count_if(lines.begin(), lines.end(), is_it), 1) << line;
  }
  // Two fences, the kind of diagram, the first and the last arrow.
  EXPECT_EQ(lines.size(), ElasticTransitions().size() + 5);
}

TEST(ElasticChartTest, NoLabelHasASignThatEndsIt) {
  for (const std::string& line : LinesOf(ElasticChart())) {
    EXPECT_EQ(line.find(';'), std::string::npos) << line;
    EXPECT_LE(std::count(line.begin(), line.end(), ':'), 1) << line;
  }
}

TEST(ElasticChartTest, ThePageSaysWhatEachStateIs) {
  std::vector<std::string> named;
  for (const DocRow& row : DocRows(kPage, "States")) named.push_back(row.at(0));
  std::vector<std::string> states;
  for (auto state = ElasticState::kGathering; state <= ElasticState::kFinished;
       state = static_cast<ElasticState>(static_cast<int>(state) + 1)) {
    states.push_back("`" + std::string(Name(state)) + "`");
  }
  EXPECT_EQ(named, states);
}

TEST(ElasticChartTest, ReplacesWhatIsBetweenTheMarkersAndNothingElse) {
  const std::string begin(kChartBegin);
  const std::string end(kChartEnd);
  const Result<std::string> drawn =
      WithElasticChart("before\n" + begin + "old\n" + end + "after\n");
  ASSERT_TRUE(drawn.ok());
  EXPECT_EQ(*drawn, "before\n" + begin + ElasticChart() + end + "after\n");
}

TEST(ElasticChartTest, APageWithoutOnePlaceIsRefused) {
  const std::string begin(kChartBegin);
  const std::string end(kChartEnd);
  const std::vector<std::string> pages = {
      "", begin, end, end + begin, begin + begin + end, begin + end + end};
  for (const std::string& page : pages) {
    EXPECT_EQ(WithElasticChart(page).status().code(), ErrorCode::kSpecInvalid) << page;
  }
}

}  // namespace
}  // namespace hvdray
