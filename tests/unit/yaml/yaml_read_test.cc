// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/yaml.h"

namespace hvdray {
namespace {

/// The value of the one key in "v: <text>".
YamlNode Value(const std::string& text) {
  const Result<YamlNode> root = ParseYaml("v: " + text, "job.yaml");
  EXPECT_TRUE(root.ok()) << text << ": " << root.status().ToString();
  return *root->Find("v");
}

template <typename T>
std::string MessageOf(const Result<T>& result) {
  if (result.ok()) return "no error";
  EXPECT_EQ(result.status().code(), ErrorCode::kSpecInvalid);
  return result.status().message();
}

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(YamlReadTest, IntegersAreDecimal) {
  const std::pair<const char*, int64_t> table[] = {{"4", 4},
                                                   {"-4", -4},
                                                   {"+4", 4},
                                                   {"0", 0},
                                                   {"-0", 0},
                                                   {"9223372036854775807", kMax},
                                                   {"-9223372036854775808", kMin}};
  for (const auto& [text, wanted] : table) {
    const Result<int64_t> value = Value(text).AsInt("np", kMin, kMax);
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().ToString();
    EXPECT_EQ(*value, wanted) << text;
  }
}

TEST(YamlReadTest, IntegerFaultsSayWhatTheValueIs) {
  const std::pair<const char*, const char*> table[] = {
      {"four", "job.yaml:1:4: np is a string (\"four\"), not an integer"},
      {"'4'", "job.yaml:1:4: np is a quoted string (\"4\"), not an integer"},
      {"4.0", "job.yaml:1:4: np is a number (4.0), not an integer"},
      {"yes", "job.yaml:1:4: np is true or false (yes), not an integer"},
      {"", "job.yaml:1:1: np is empty, not an integer"},
      {"~", "job.yaml:1:4: np is empty, not an integer"},
      {"[4]", "job.yaml:1:4: np is a list, not an integer"},
      {"{a: 4}", "job.yaml:1:4: np is a map, not an integer"},
      {"0x10", "job.yaml:1:4: np is a string (\"0x10\"), not an integer"},
      {"1_000", "job.yaml:1:4: np is a string (\"1_000\"), not an integer"},
      {"+-4", "job.yaml:1:4: np is a string (\"+-4\"), not an integer"},
      {"+", "job.yaml:1:4: np is a string (\"+\"), not an integer"},
      {"010", "job.yaml:1:4: np has a leading zero (010)"},
      {"-010", "job.yaml:1:4: np has a leading zero (-010)"},
      {"0", "job.yaml:1:4: np is 0, not within 1 to 65536"},
      {"65537", "job.yaml:1:4: np is 65537, not within 1 to 65536"},
      {"99999999999999999999", "job.yaml:1:4: np is 99999999999999999999, not within 1 to 65536"}};
  for (const auto& [text, wanted] : table) {
    EXPECT_EQ(MessageOf(Value(text).AsInt("np", 1, 65536)), wanted) << text;
  }
  EXPECT_EQ(Value("'4'").AsInt("np", 1, 9).status().hint(), "write it without quotes");
}

TEST(YamlReadTest, DoublesAreFiniteDecimals) {
  const std::pair<const char*, double> table[] = {{"1", 1},      {"-1.5", -1.5}, {"+2.5", 2.5},
                                                  {".5", 0.5},   {"5.", 5},      {"1e3", 1000},
                                                  {"1E-2", 0.01}};
  for (const auto& [text, wanted] : table) {
    const Result<double> value = Value(text).AsDouble("speed");
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().ToString();
    EXPECT_DOUBLE_EQ(*value, wanted) << text;
  }
  for (const char* text : {".inf", "-.inf", ".nan", "inf", "nan", "0x1p3", "1e999", "1.2.3", "+-1",
                           "''", "'1'", "yes", "~", "[1]", "1 2"}) {
    EXPECT_FALSE(Value(text).AsDouble("speed").ok()) << text;
  }
  EXPECT_EQ(MessageOf(Value("fast").AsDouble("speed")),
            "job.yaml:1:4: speed is a string (\"fast\"), not a number");
}

TEST(YamlReadTest, BooleansHaveTheSpellingsOfYaml11) {
  for (const char* text : {"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"}) {
    const Result<bool> value = Value(text).AsBool("b");
    EXPECT_TRUE(value.ok() && *value) << text;
  }
  for (const char* text : {"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"}) {
    const Result<bool> value = Value(text).AsBool("b");
    EXPECT_TRUE(value.ok() && !*value) << text;
  }
  for (const char* text : {"tRUE", "y", "1", "0", "'true'", "", "[true]", "{}"}) {
    EXPECT_FALSE(Value(text).AsBool("b").ok()) << text;
  }
  EXPECT_EQ(MessageOf(Value("1").AsBool("b")),
            "job.yaml:1:4: b is a number (1), not true or false");
}

TEST(YamlReadTest, AnyScalarIsAStringAsItStands) {
  const std::pair<const char*, const char*> table[] = {
      {"x", "x"}, {"007", "007"},   {"1.50", "1.50"},      {"yes", "yes"},
      {"''", ""}, {"' a '", " a "}, {"\"a\\tb\"", "a\tb"}, {"a b # c", "a b"}};
  for (const auto& [text, wanted] : table) {
    const Result<std::string> value = Value(text).AsString("s");
    ASSERT_TRUE(value.ok()) << text << ": " << value.status().ToString();
    EXPECT_EQ(*value, wanted) << text;
  }
  EXPECT_EQ(MessageOf(Value("~").AsString("s")), "job.yaml:1:4: s is empty, not a string");
  EXPECT_EQ(MessageOf(Value("[x]").AsString("s")), "job.yaml:1:4: s is a list, not a string");
  EXPECT_EQ(MessageOf(Value("\"a\\0b\"").AsString("s")), "job.yaml:1:4: s holds a NUL byte");
}

TEST(YamlReadTest, ListsOfStringsNameTheFaultyItem) {
  const Result<std::vector<std::string>> value =
      Value("[python, train.py, 3, 'x y']").AsStrings("c");
  ASSERT_TRUE(value.ok());
  EXPECT_EQ(*value, (std::vector<std::string>{"python", "train.py", "3", "x y"}));
  EXPECT_TRUE(Value("[]").AsStrings("c").ok());
  EXPECT_EQ(MessageOf(Value("[a, [b]]").AsStrings("command")),
            "job.yaml:1:8: command[1] is a list, not a string");
  EXPECT_EQ(MessageOf(Value("[a, null]").AsStrings("command")),
            "job.yaml:1:8: command[1] is empty, not a string");
  EXPECT_EQ(MessageOf(Value("a").AsStrings("command")),
            "job.yaml:1:4: command is a string (\"a\"), not a list of strings");
}

TEST(YamlReadTest, MessagesStayOneShortLineWhateverTheValueHolds) {
  EXPECT_EQ(MessageOf(Value("\"a\\e[31m\\nb\\x7f\"").AsInt("np", 0, 1)),
            "job.yaml:1:4: np is a quoted string (\"a\\x1b[31m\\x0ab\\x7f\"), not an integer");
  const std::string message = MessageOf(Value(std::string(100'000, 'x')).AsInt("np", 0, 1));
  EXPECT_LT(message.size(), 150U);
  EXPECT_NE(message.find("xxx...\""), std::string::npos) << message;
  std::string snowmen;
  for (int i = 0; i < 100; ++i) snowmen += "\xE2\x98\x83";
  const std::string cut = MessageOf(Value(snowmen).AsInt("np", 0, 1));
  EXPECT_NE(cut.find("\xE2\x98\x83...\""), std::string::npos) << "cut between characters: " << cut;
}

}  // namespace
}  // namespace hvdray
