// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace hvdray {
namespace {

using Words = std::vector<std::string_view>;

TEST(TextTest, LowerChangesNothingButAToZ) {
  EXPECT_EQ(Lower("Host-Z\xc3\x84[@"), "host-z\xc3\x84[@");
  EXPECT_EQ(Lower(""), "");
}

TEST(TextTest, TrimmedKeepsBlanksInTheMiddle) {
  EXPECT_EQ(Trimmed(" \t a b\v\f\r\n"), "a b");
  EXPECT_EQ(Trimmed(" \n "), "");
  EXPECT_EQ(Trimmed(" a\n", " "), "a\n");
}

TEST(TextTest, NoDigitsAreNotAllDigits) {
  EXPECT_TRUE(IsAllDigits("007"));
  EXPECT_FALSE(IsAllDigits(""));
  EXPECT_FALSE(IsAllDigits("-1"));
}

TEST(TextTest, BlankSeparatedHasNoEmptyWord) {
  EXPECT_EQ(BlankSeparated("  a\tbc \n"), (Words{"a", "bc"}));
  EXPECT_EQ(BlankSeparated(" "), Words{});
  EXPECT_EQ(BlankSeparated("a\nb c", " "), (Words{"a\nb", "c"}));
}

TEST(TextTest, LinesOfKeepsEmptyLinesButNoneAfterTheLastEnd) {
  EXPECT_EQ(LinesOf(""), Words{});
  EXPECT_EQ(LinesOf("a"), Words{"a"});
  EXPECT_EQ(LinesOf("a\n\n b\r\n"), (Words{"a", "", " b\r"}));
  EXPECT_EQ(LinesOf("\n\n"), (Words{"", ""}));
}

TEST(TextTest, ParseIntegerTakesAllOfTheTextOrNothing) {
  EXPECT_EQ(ParseInteger<int>("-42"), -42);
  EXPECT_EQ(ParseInteger<uint16_t>("fFfF", 16), 65535);
  EXPECT_EQ(ParseInteger<uint8_t>("255"), 255);
  for (const char* text : {"", " 1", "1 ", "+1", "0x1", "1.0", "256", "-1"}) {
    EXPECT_EQ(ParseInteger<uint8_t>(text), std::nullopt) << text;
  }
}

TEST(TextTest, ParseDoubleTakesFiniteDecimalNumbers) {
  EXPECT_EQ(ParseDouble("-1.5"), -1.5);
  EXPECT_EQ(ParseDouble("+1e3"), 1000);
  for (const char* text : {"", "+", "+-1", "++1", " 1", "1 ", "0x10", "inf", "nan", "1e999"}) {
    EXPECT_EQ(ParseDouble(text), std::nullopt) << text;
  }
}

TEST(TextTest, WithoutPlusLeavesASecondSign) {
  EXPECT_EQ(WithoutPlus("+1"), "1");
  for (const char* text : {"", "+", "-1", "+-1", "1+"}) EXPECT_EQ(WithoutPlus(text), text);
}

TEST(TextTest, SecondsHaveThreeDigits) {
  EXPECT_EQ(SecondsText(std::chrono::milliseconds(1500)), "1.5 s");
  EXPECT_EQ(SecondsText(std::chrono::microseconds(1)), "1e-06 s");
  EXPECT_EQ(SecondsText(std::chrono::seconds(30)), "30 s");
}

TEST(TextTest, OnlyALeadingTildeWithASlashMeansHome) {
  EXPECT_EQ(AtHome("~/a", "/home/u"), "/home/u/a");
  EXPECT_EQ(AtHome("~/a", ""), "~/a");
  EXPECT_EQ(AtHome("~", "/home/u"), "/home/u");
  for (const char* path : {"", "~u/a", "/a/~/b"}) EXPECT_EQ(AtHome(path, "/home/u"), path);
}

std::string Encode(uint32_t c) {
  const auto tail = [c](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8Test, EveryScalarValueIsWellFormedAndNothingElseIs) {
  for (uint32_t c = 0; c < 0x120000; ++c) {
    const bool is_scalar = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
    const std::string text = Encode(c) + "x";
    ASSERT_EQ(Utf8Length(text), is_scalar ? text.size() - 1 : 0) << std::hex << c;
  }
}

TEST(Utf8Test, OverlongFormsAreNotWellFormed) {
  for (const char* text : {"\xC0\xAF", "\xC1\xBF", "\xE0\x80\xAF", "\xE0\x9F\xBF",
                           "\xF0\x80\x80\xAF", "\xF0\x8F\xBF\xBF"}) {
    EXPECT_EQ(Utf8Length(text), 0U);
  }
}

TEST(Utf8Test, CutSequencesAndStrayBytesAreNotWellFormed) {
  for (const char* text :
       {"", "\x80", "\xBF", "\xC3", "\xC3x", "\xE2\x98", "\xE2x\x83", "\xE2\x98x", "\xF0\x9F\x98",
        "\xF0\x9F\x98x", "\xF5\x80\x80\x80", "\xFE", "\xFF"}) {
    EXPECT_EQ(Utf8Length(text), 0U);
  }
}

TEST(Utf8Test, TextIsUtf8IfAllOfItIs) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("\xC3\xA4x\xF0\x9F\x98\x80"));
  EXPECT_FALSE(IsUtf8("x\xC3"));
}

std::string NearestOf(std::string_view word, const std::vector<std::string_view>& candidates) {
  return Nearest(word, candidates);
}

TEST(NearestTest, FindsOneSlipOfEachKind) {
  const std::vector<std::string_view> words = {"verbose", "timeout", "hostfile", "report"};
  EXPECT_EQ(NearestOf("verbos", words), "verbose");     // left out
  EXPECT_EQ(NearestOf("timeoout", words), "timeout");   // doubled
  EXPECT_EQ(NearestOf("hostfike", words), "hostfile");  // wrong key
  EXPECT_EQ(NearestOf("repotr", words), "report");      // swapped
}

TEST(NearestTest, SaysNothingWhenNothingIsNear) {
  EXPECT_EQ(NearestOf("banana", {"verbose", "timeout"}), "");
  EXPECT_EQ(NearestOf("x", {}), "");
  EXPECT_EQ(NearestOf("", {"verbose"}), "");
}

TEST(NearestTest, HalfOfAShortWordMustBeRight) {
  EXPECT_EQ(NearestOf("foo", {"gloo"}), "");
  EXPECT_EQ(NearestOf("glo", {"gloo"}), "gloo");
  EXPECT_EQ(NearestOf("x", {"y"}), "");
}

TEST(NearestTest, LimitIsAThirdOfTheShorterWord) {
  EXPECT_EQ(NearestOf("abc", {"abd"}), "abd");
  EXPECT_EQ(NearestOf("abc", {"axy"}), "");
  EXPECT_EQ(NearestOf("fooo", {"gloo"}), "");
  EXPECT_EQ(NearestOf("slow", {"slots"}), "");
  EXPECT_EQ(NearestOf("abcdef", {"abcdxy"}), "abcdxy");
}

TEST(NearestTest, WhatAllNamesBeginWithIsNoLikeness) {
  EXPECT_EQ(NearestOf("--fooo", {"--gloo", "--foo"}), "--foo");
  EXPECT_EQ(NearestOf("--fooo", {"--gloo"}), "");
  EXPECT_EQ(NearestOf("HVDRAY_FOO", {"HVDRAY_NP", "HVDRAY_HOSTS"}), "");
  EXPECT_EQ(NearestOf("HVDRAY_GRCAE", {"HVDRAY_GRACE"}), "HVDRAY_GRACE");
  EXPECT_EQ(NearestOf("head_foo", {"head_ip"}), "");
  EXPECT_EQ(NearestOf("--np", {"-np"}), "-np");
  EXPECT_EQ(NearestOf("-x", {"-y"}), "");
}

TEST(NearestTest, TakesTheNearestAndOfEqualsTheFirst) {
  EXPECT_EQ(NearestOf("host", {"hosts-x", "hosts", "hose"}), "hosts");
  EXPECT_EQ(NearestOf("host", {"hose", "hosts"}), "hose");
}

TEST(NearestTest, SwapOfNeighboursCountsOnce) { EXPECT_EQ(NearestOf("ab", {"ba"}), "ba"); }

TEST(NearestTest, LongHostileWordIsNoTrouble) {
  EXPECT_EQ(NearestOf(std::string(2000, 'a'), {"verbose", "timeout"}), "");
}

}  // namespace
}  // namespace hvdray
