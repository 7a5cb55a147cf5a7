// SPDX-License-Identifier: Apache-2.0
// The words of `hvdray bench`.
#include <gtest/gtest.h>

#include "launcher/job/options_resolver.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

TEST(BenchWordsTest, ItsOwnOptionsHideThoseOfRunAndTheOthersAreForRun) {
  const auto bench = ResolveBench(Words{"-np", "4", "-b", "8", "-n20", "-f2", "-H", "a:2,b:2",
                                        "--backend", "gloo", "--verbose", "-i=1K"});
  ASSERT_TRUE(bench.ok()) << bench.status().ToString();
  EXPECT_EQ(bench->run_words, (Words{"-np", "4", "-H", "a:2,b:2", "--verbose"}));
  EXPECT_EQ(bench->bench_words,
            (Words{"-b", "8", "-n", "20", "-f", "2", "--backend", "gloo", "-i", "1K"}));
  EXPECT_EQ(bench->said.options.at(OptionId::kIterations).last(), "20");
  EXPECT_EQ(bench->said.options.at(OptionId::kCollectiveBackends).last(), "gloo");
}

TEST(BenchWordsTest, APlotTakesItsFileInTheSameWordOrTheNext) {
  for (const Words& words :
       {Words{"--plot=a.svg", "-b", "8"}, Words{"--plot", "a.svg", "-b", "8"}}) {
    const auto bench = ResolveBench(words);
    ASSERT_TRUE(bench.ok()) << bench.status().ToString();
    EXPECT_EQ(bench->bench_words, (Words{"--plot=a.svg", "-b", "8"}));
    EXPECT_EQ(bench->said.options.at(OptionId::kPlot).last(), "a.svg");
  }
  const auto terminal = ResolveBench(Words{"--plot", "-b", "8"});
  EXPECT_EQ(terminal->bench_words, (Words{"--plot", "-b", "8"}));
  EXPECT_TRUE(terminal->said.options.contains(OptionId::kPlot));
}

TEST(BenchWordsTest, AnyOtherWordIsAnError) {
  for (const Words& words : {Words{"train.py"}, Words{"--plot", "a.png"}, Words{"a.svg"},
                             Words{"-b", "8", "a.svg"}, Words{"--plot=a.svg", "b.svg"}}) {
    const Status status = ResolveBench(words).status();
    EXPECT_EQ(status.code(), ErrorCode::kUsage);
    EXPECT_NE(status.message().find("unexpected word"), std::string::npos) << status.ToString();
  }
  EXPECT_NE(ResolveBench(Words{"--minbyte", "8"}).status().ToString().find("--minbytes"),
            std::string::npos);
}

TEST(BenchWordsTest, AValueThatLooksLikeAnOptionStaysAValue) {
  const auto bench = ResolveBench(Words{"-b=--x", "--json", "-", "-x=-y=1"});
  ASSERT_TRUE(bench.ok()) << bench.status().ToString();
  EXPECT_EQ(bench->bench_words, (Words{"-b=--x", "--json", "-"}));
  EXPECT_EQ(bench->run_words, Words{"-x=-y=1"});
}

TEST(BenchWordsTest, HelpAndVersionComeBeforeAllElse) {
  EXPECT_TRUE(ResolveBench(Words{"-b", "8", "--help", "nonsense"})->wants_help);
  EXPECT_TRUE(ResolveBench(Words{"--version"})->wants_version);
}

}  // namespace
}  // namespace hvdray
