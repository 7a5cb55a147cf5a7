// SPDX-License-Identifier: Apache-2.0
// Values as people write them: durations, numbers, sizes, yes and no, --sync; Python's float text.
// Not here: which option takes which of them.
#include "launcher/job/value_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;

TEST(ParseDurationTest, TakesSecondsFractionsAndUnits) {
  EXPECT_EQ(*ParseDuration("30"), seconds(30));
  EXPECT_EQ(*ParseDuration("0"), Duration::zero());
  EXPECT_EQ(*ParseDuration("0.5"), milliseconds(500));
  EXPECT_EQ(*ParseDuration(".5s"), milliseconds(500));
  EXPECT_EQ(*ParseDuration("200ms"), milliseconds(200));
  EXPECT_EQ(*ParseDuration("1.5us"), nanoseconds(1500));
  EXPECT_EQ(*ParseDuration("2m"), seconds(120));
  EXPECT_EQ(*ParseDuration("1.5h"), seconds(5400));
  EXPECT_EQ(*ParseDuration("1d"), seconds(86400));
  EXPECT_EQ(*ParseDuration("+3"), seconds(3));
}

TEST(ParseDurationTest, RefusesOtherText) {
  for (const char* bad : {"", "s", "-1", "-0", "1e3", "1 s", " 1", "1 ", "1m30s", "1.2.3", "0x10",
                          "inf", "nan", "1S", "11y", "99999999999", "--5", "+-5", "1d\n"}) {
    EXPECT_FALSE(ParseDuration(bad).ok()) << bad;
  }
  ExpectFault("soon", ParseDuration("soon").status(), ErrorCode::kUsage, "must be");
}

TEST(FormatSecondsTest, IsShortAndExact) {
  EXPECT_EQ(FormatSeconds(seconds(30)), "30");
  EXPECT_EQ(FormatSeconds(milliseconds(200)), "0.2");
  EXPECT_EQ(FormatSeconds(nanoseconds(1)), "0.000000001");
  EXPECT_EQ(FormatSeconds(milliseconds(-1500)), "-1.5");
  EXPECT_EQ(FormatSeconds(Duration::zero()), "0");
  for (const char* text : {"30", "0.2", "1.000000001", "5400"}) {
    EXPECT_EQ(FormatSeconds(*ParseDuration(text)), text);
  }
}

TEST(ShowDurationTest, ChoosesTheUnit) {
  EXPECT_EQ(ShowDuration(seconds(30)), "30 s");
  EXPECT_EQ(ShowDuration(milliseconds(1500)), "1.5 s");
  EXPECT_EQ(ShowDuration(milliseconds(200)), "200 ms");
  EXPECT_EQ(ShowDuration(microseconds(1500)), "1.5 ms");
  EXPECT_EQ(ShowDuration(seconds(86400)), "86400 s");
  EXPECT_EQ(ShowDuration(Duration::zero()), "0 ms");
}

TEST(ParseWholeTest, TakesDigitsWithASignWithinTheRange) {
  EXPECT_EQ(*ParseWhole("7", 0, 10), 7);
  EXPECT_EQ(*ParseWhole("+7", 0, 10), 7);
  EXPECT_EQ(*ParseWhole("-7", -10, 10), -7);
  EXPECT_EQ(*ParseWhole("007", 0, 10), 7);
  for (const char* bad : {"", "+", "-", "11", "-1", "1.0", "1e1", "0x1", " 1", "1 ", "one",
                          "99999999999999999999", "+-1", "1_0"}) {
    EXPECT_FALSE(ParseWhole(bad, 0, 10).ok()) << bad;
  }
}

TEST(ParseNumberTest, TakesFiniteDecimalsOnly) {
  EXPECT_EQ(*ParseNumber("1e-3"), 0.001);
  EXPECT_EQ(*ParseNumber("-.5"), -0.5);
  for (const char* bad : {"", "inf", "nan", "-inf", "1e999", "1,5", "0x1p3", "1 "}) {
    EXPECT_FALSE(ParseNumber(bad).ok()) << bad;
  }
}

TEST(ParseYesNoTest, TakesTheUsualWordsInAnyCase) {
  for (const char* yes : {"1", "true", "TRUE", "Yes", "on", "y"}) EXPECT_TRUE(*ParseYesNo(yes));
  for (const char* no : {"0", "false", "No", "OFF", "n"}) EXPECT_FALSE(*ParseYesNo(no));
  for (const char* bad : {"", "2", "ja", "tru", "true "}) EXPECT_FALSE(ParseYesNo(bad).ok());
}

TEST(FormatPythonFloatTest, WritesWhatPythonsStrWrites) {
  // Each line was printed by CPython 3.11.
  const std::vector<std::pair<double, std::string>> vectors = {
      {20, "20.0"},
      {0, "0.0"},
      {-0.0, "-0.0"},
      {1.5, "1.5"},
      {0.1, "0.1"},
      {1e-5, "1e-05"},
      {0.0001, "0.0001"},
      {1e15, "1000000000000000.0"},
      {1e16, "1e+16"},
      {1.5e300, "1.5e+300"},
      {123456.789, "123456.789"},
      {-2.5e-7, "-2.5e-07"},
      {1572864.0, "1572864.0"},
      {0.30000000000000004, "0.30000000000000004"},
      {9007199254740993.0, "9007199254740992.0"},
      {5e-324, "5e-324"},
      {1e22, "1e+22"},
      {100, "100.0"}};
  for (const auto& [value, text] : vectors) EXPECT_EQ(FormatPythonFloat(value), text);
  EXPECT_EQ(FormatPythonFloat(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(FormatPythonFloat(-std::numeric_limits<double>::infinity()), "-inf");
  EXPECT_EQ(FormatPythonFloat(std::nan("")), "nan");
}

TEST(QuotedTest, KeepsAMessageOnOneShortLine) {
  EXPECT_EQ(Quoted("a"), "'a'");
  EXPECT_EQ(Quoted("a\nb\x1b"), "'a\\x0ab\\x1b'");
  EXPECT_LT(Quoted(std::string(1000, 'x')).size(), 100u);
}

TEST(ParseBytesTest, TakesDecimalAndBinaryUnits) {
  const std::pair<const char*, double> table[] = {{"512", 512},     {"512B", 512},
                                                  {"2KB", 2e3},     {"3TB", 3e12},
                                                  {"1.5KiB", 1536}, {"1GiB", 1073741824}};
  for (const auto& [text, bytes] : table) EXPECT_EQ(ParseBytes(text).value(), bytes) << text;
  for (const char* bad : {"", "GiB", "1Gi", "1 GiB", "many"}) {
    EXPECT_EQ(ParseBytes(bad).status().code(), ErrorCode::kUsage) << bad;
  }
}

TEST(SyncWordTest, TargetIsBehindTheLastColon) {
  EXPECT_EQ(ParseSyncWord("dir").value(), (SyncWord{"dir", "", false}));
  EXPECT_EQ(ParseSyncWord("dir:/x").value(), (SyncWord{"dir", "/x", true}));
  EXPECT_EQ(ParseSyncWord("a:b:c").value(), (SyncWord{"a:b", "c", true}));
  EXPECT_EQ(ParseSyncWord("a:b:").value(), (SyncWord{"a:b", "", false}));
}

TEST(SyncWordTest, TildeIsTheHomeDirectoryThere) {
  EXPECT_EQ(ParseSyncWord("d:~").value().target, ".");
  EXPECT_EQ(ParseSyncWord("d:~/").value().target, ".");
  EXPECT_EQ(ParseSyncWord("d:~/x").value().target, "x");
}

TEST(SyncWordTest, WhatNamesNoPlaceIsRefused) {
  for (const std::string& word :
       {std::string(), std::string(":x"), std::string("d:.."), std::string("d:a/../b"),
        std::string("d:/.."), std::string("d:~me/x"), "d:" + std::string(4001, 'x'),
        std::string("d\0x", 3)}) {
    EXPECT_EQ(ParseSyncWord(word).status().code(), ErrorCode::kUsage) << word;
  }
}

TEST(SyncWordTest, WordComesBackAsItWasMeant) {
  for (const char* word : {"dir", "dir:/x", "a:b:c", "a:b:", "d:."}) {
    EXPECT_EQ(SyncText(ParseSyncWord(word).value()), word);
  }
}

}  // namespace
}  // namespace hvdray
