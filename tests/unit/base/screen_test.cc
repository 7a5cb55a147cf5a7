// SPDX-License-Identifier: Apache-2.0
#include "base/screen.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

using Lines = std::vector<std::string>;

TEST(ScreenTest, ALineIsCutBetweenCharacters) {
  EXPECT_EQ(CutToWidth("abc", 5), "abc");
  EXPECT_EQ(CutToWidth("abc", 3), "abc");
  EXPECT_EQ(CutToWidth("abc", 2), "ab");
  EXPECT_EQ(CutToWidth("abc", 0), "");
  EXPECT_EQ(CutToWidth("äöü", 2), "äö");
  EXPECT_EQ(CutToWidth("x…y", 2), "x…");
  EXPECT_EQ(CutToWidth("\xff\xc3", 1), "\xff") << "not UTF-8: byte by byte";
  EXPECT_EQ(CutToWidth("a\xc3", 9), "a\xc3");
}

TEST(ScreenTest, EachLineIsClearedBeforeItIsDrawn) {
  EXPECT_EQ(DrawnLines(Lines{"one", "", "three"}, 4), "\x1b[Kone\n\x1b[K\n\x1b[Kthre");
  EXPECT_EQ(DrawnLines(Lines{}, 4), "");
}

TEST(ScreenBlockTest, IsDrawnOverUnlessTextTakesItsPlace) {
  ScreenBlock block;
  EXPECT_EQ(block.Draw("", {}, 80), "") << "nothing to take away";
  const std::string two = "\r\x1b[?7l\x1b[Ka\n\x1b[Kb\n\x1b[?7h\x1b[J";
  EXPECT_EQ(block.Draw("text\n", Lines{"a", "b"}, 80), "text\n" + two);
  EXPECT_TRUE(block.is_drawn());
  EXPECT_EQ(block.Draw("", Lines{"a", "b"}, 80), "\r\x1b[2A" + two);
  EXPECT_EQ(block.Draw("more\n", Lines{"a", "b"}, 80), "\r\x1b[2A\x1b[Jmore\n" + two);
  EXPECT_EQ(block.Draw("", {}, 80), "\r\x1b[2A\x1b[J");
  EXPECT_FALSE(block.is_drawn());
  EXPECT_EQ(block.Draw("last\n", {}, 80), "last\n");
}

TEST(ScreenBlockTest, LinesThatANarrowerTerminalWrapsAreTakenAwayWhole) {
  ScreenBlock block;
  (void)block.Draw("", Lines{"0123456789", "", "äöü"}, 80);
  EXPECT_EQ(block.Draw("", {}, 4), "\r\x1b[5A\x1b[J");
}

}  // namespace
}  // namespace hvdray
