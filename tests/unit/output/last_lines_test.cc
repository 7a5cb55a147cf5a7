// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "launcher/report/worker_lines.h"

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

TEST(LastLinesTest, KeepsTheLastTwentyLines) {
  LastLines last;
  for (int i = 0; i < 50; ++i) last.Feed(fmt::format("line {}\n", i));
  const Lines lines = last.Lines();
  ASSERT_EQ(lines.size(), 20u);
  EXPECT_EQ(lines.front(), "line 30");
  EXPECT_EQ(lines.back(), "line 49");
}

TEST(LastLinesTest, AnUnfinishedLineCounts) {
  LastLines last;
  last.Feed("Traceback\nKeyErr");
  last.Feed("or: 'x'");
  EXPECT_EQ(last.Lines(), (Lines{"Traceback", "KeyError: 'x'"}));
}

TEST(LastLinesTest, AProgressBarIsOneLineAsOnATerminal) {
  LastLines last;
  last.Feed("start\n");
  for (int i = 0; i <= 100; ++i) last.Feed(fmt::format("{:3d}%\r", i));
  last.Feed("\nerror\r\n");
  EXPECT_EQ(last.Lines(), (Lines{"start", "100%", "error"}));
}

TEST(LastLinesTest, CarriageReturnAndNewlineMayComeApart) {
  LastLines last;
  last.Feed("a\r");
  EXPECT_EQ(last.Lines(), (Lines{"a"}));
  last.Feed("\nb\r");
  last.Feed("c\n");
  EXPECT_EQ(last.Lines(), (Lines{"a", "c"}));
}

TEST(LastLinesTest, EmptyLinesAreLeftOut) {
  LastLines last;
  last.Feed("\n\r\n\na\n\n");
  EXPECT_EQ(last.Lines(), (Lines{"a"}));
}

TEST(LastLinesTest, ALongLineIsCutAndSaysSo) {
  LastLines last;
  last.Feed(std::string(3000, 'x'));
  last.Feed("y\nshort\n");
  EXPECT_EQ(last.Lines(), (Lines{std::string(LastLines::kMaxLineBytes, 'x') + "…", "short"}));
}

TEST(LastLinesTest, AFloodStaysWithinTheBound) {
  LastLines last;
  const std::string flood(size_t{1} << 20, 'x');
  last.Feed("early\n");
  for (int i = 0; i < 3; ++i) last.Feed(flood);
  last.Feed("\n");
  for (int i = 0; i < 100; ++i) last.Feed(std::string(1500, 'z') + "\n");
  size_t bytes = 0;
  for (const std::string& line : last.Lines()) bytes += line.size();
  EXPECT_LE(bytes, LastLines::kMaxBytes);
  EXPECT_GT(bytes, LastLines::kMaxBytes / 2);
}

TEST(LastLinesTest, OfALargeReadOnlyTheEndMatters) {
  LastLines last;
  std::string large;
  for (int i = 0; i < 10000; ++i) large += fmt::format("line {}\n", i);
  last.Feed(large);
  EXPECT_EQ(last.Lines().size(), 20u);
  EXPECT_EQ(last.Lines().back(), "line 9999");
}

TEST(LastLinesTest, ClearForgetsAll) {
  LastLines last;
  last.Feed("a\nb");
  last.Clear();
  EXPECT_TRUE(last.Lines().empty());
}

}  // namespace
}  // namespace hvdray
