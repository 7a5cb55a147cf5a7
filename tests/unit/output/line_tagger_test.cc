// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/report/worker_lines.h"

namespace hvdray {
namespace {

using namespace std::string_literals;

std::string Tag(std::string_view input, std::string tag = "[123]<prefix>:") {
  LineTagger tagger(std::move(tag));
  std::string out;
  tagger.Feed(input, {}, out);
  tagger.Finish({}, out);
  return out;
}

TEST(LineTaggerTest, HorovodsVectorsHold) {
  const std::string input = "first line\rfirst line again\nsecond line\n";
  EXPECT_EQ(Tag(input),
            "[123]<prefix>:first line\r[123]<prefix>:first line again\n"
            "[123]<prefix>:second line\n");
  EXPECT_EQ(Tag("first\nsecond"), "[123]<prefix>:first\n[123]<prefix>:second");
  EXPECT_EQ(Tag(input, ""), input);
}

TEST(LineTaggerTest, CarriageReturnAndNewlineMakeASecondEmptyLine) {
  EXPECT_EQ(Tag("a\r\nb\r\n", "T:"), "T:a\rT:\nT:b\rT:\n");
}

TEST(LineTaggerTest, EmptyLinesAreTagged) { EXPECT_EQ(Tag("\n\n\r", "T:"), "T:\nT:\nT:\r"); }

TEST(LineTaggerTest, NothingInGivesNothingOut) { EXPECT_EQ(Tag("", "T:"), ""); }

TEST(LineTaggerTest, BytesThatAreNoTextPassUnharmed) {
  const std::string input = "\xff\xfe\0\x80 caf\xc3\n\0\n"s;
  EXPECT_EQ(Tag(input, "T:"), "T:\xff\xfe\0\x80 caf\xc3\nT:\0\n"s);
}

TEST(LineTaggerTest, AnOpenLineIsHeldUntilItsEndComes) {
  LineTagger tagger("T:");
  std::string out;
  tagger.Feed("ab", {}, out);
  EXPECT_EQ(out, "");
  EXPECT_EQ(tagger.held_bytes(), 2u);
  tagger.Feed("c\nd", {}, out);
  EXPECT_EQ(out, "T:abc\n");
  EXPECT_EQ(tagger.held_bytes(), 1u);
}

TEST(LineTaggerTest, ALineOfExactlyTheLimitStaysWhole) {
  const std::string line(kMaxHeldLine, 'x');
  LineTagger tagger("T:");
  std::string out;
  tagger.Feed(line, {}, out);
  EXPECT_EQ(out, "");
  tagger.Feed("\n", {}, out);
  EXPECT_EQ(out, "T:" + line + "\n");
}

TEST(LineTaggerTest, ALineWithoutEndIsPassedOnInPiecesWithOneTag) {
  LineTagger tagger("T:");
  const std::string part(1000, 'x');
  std::string out, all;
  for (int i = 0; i < 1000; ++i) {
    tagger.Feed(part, {}, out);
    all += part;
    ASSERT_LE(tagger.held_bytes(), kMaxHeldLine);
  }
  tagger.Feed("\nnext\n", {}, out);
  EXPECT_EQ(out, "T:" + all + "\nT:next\n");
}

TEST(LineTaggerTest, EndInTheMiddleOfALongLineLeavesNothingBehind) {
  LineTagger tagger("T:");
  std::string out;
  tagger.Feed(std::string(kMaxHeldLine + 1, 'x'), {}, out);
  tagger.Feed("y", {}, out);
  tagger.Finish({}, out);
  EXPECT_EQ(out, "T:" + std::string(kMaxHeldLine + 1, 'x') + "y");
  EXPECT_EQ(tagger.held_bytes(), 0u);
}

TEST(LineTaggerTest, ManyCarriageReturnsBeforeAFarNewlineStayLinear) {
  // Quadratic search would take minutes here.
  const std::string input = std::string(size_t{4} << 20, '\r') + "\n";
  EXPECT_EQ(Tag(input, "").size(), input.size());
}

TEST(LineTaggerTest, StampStandsDirectlyInFrontOfTheTag) {
  LineTagger tagger("[0]<stdout>:");
  std::string out;
  tagger.Feed("text\nmore", "Sat Nov 21 03:37:30 2026", out);
  tagger.Finish("Sat Nov 21 03:37:31 2026", out);
  EXPECT_EQ(out,
            "Sat Nov 21 03:37:30 2026[0]<stdout>:text\n"
            "Sat Nov 21 03:37:31 2026[0]<stdout>:more");
}

TEST(LineTaggerTest, StampWithoutTagIsSetOffByASpace) {
  LineTagger tagger("");
  std::string out;
  tagger.Feed("text\n", "Sat Nov 21 03:37:30 2026", out);
  EXPECT_EQ(out, "Sat Nov 21 03:37:30 2026 text\n");
}

TEST(TagTextTest, NamesRankHostAndStream) {
  using wire::StreamId;
  EXPECT_EQ(TagText(TagOutput::kRank, 3, "node7", StreamId::kStdout), "[3]<stdout>:");
  EXPECT_EQ(TagText(TagOutput::kRank, 0, "node7", StreamId::kStderr), "[0]<stderr>:");
  EXPECT_EQ(TagText(TagOutput::kHost, 3, "node7", StreamId::kStderr), "[node7:3]<stderr>:");
  EXPECT_EQ(TagText(TagOutput::kNone, 3, "node7", StreamId::kStdout), "");
}

TEST(StampTextTest, IsWhatAsctimeSays) {
  std::tm time{};
  time.tm_year = 2026 - 1900;
  time.tm_mon = 10;
  time.tm_mday = 21;
  time.tm_hour = 3;
  time.tm_min = 37;
  time.tm_sec = 30;
  time.tm_wday = 6;
  EXPECT_EQ(StampText(time), "Sat Nov 21 03:37:30 2026");
  time.tm_mday = 1;
  time.tm_wday = 0;
  std::string reference = std::asctime(&time);
  reference.pop_back();
  EXPECT_EQ(StampText(time), reference);
}

}  // namespace
}  // namespace hvdray
