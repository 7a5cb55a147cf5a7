// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace hvdray {
namespace {

TEST(ParseJsonTest, KeepsTheOrderOfKeys) {
  const Result<Json> json = ParseJson(R"({"b":1,"a":[true,null,"x"]})");
  ASSERT_TRUE(json.ok());
  EXPECT_EQ(DumpJson(*json), R"({"b":1,"a":[true,null,"x"]})");
}

TEST(ParseJsonTest, NamesTheByteOfASyntaxError) {
  for (const char* text : {"", "{", "[1,]", "{\"a\":}", "nul", "1 2", "\"\xff\"", "{'a':1}"}) {
    const Result<Json> json = ParseJson(text);
    ASSERT_FALSE(json.ok()) << text;
    EXPECT_EQ(json.status().code(), ErrorCode::kProtocolError);
    EXPECT_NE(json.status().message().find("invalid JSON at byte"), std::string::npos) << text;
  }
}

TEST(ParseJsonTest, RefusesWhatIsLongerThanTheLimit) {
  EXPECT_TRUE(ParseJson("[1]", 3).ok());
  EXPECT_FALSE(ParseJson("[1] ", 3).ok());
}

TEST(ParseJsonTest, RefusesDeepNesting) {
  const auto nested = [](size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_TRUE(ParseJson(nested(64)).ok());
  EXPECT_FALSE(ParseJson(nested(66)).ok());
  EXPECT_FALSE(ParseJson(nested(50'000)).ok());
  EXPECT_FALSE(ParseJson(std::string(100'000, '[')).ok());
}

TEST(ParseJsonTest, RefusesAnObjectOfMoreThan4096KeysButNotManyObjects) {
  const auto object = [](int keys) {
    std::string text = "{";
    for (int i = 0; i < keys; ++i) text += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    return text + "}";
  };
  EXPECT_TRUE(ParseJson(object(4096)).ok());
  const Result<Json> refused = ParseJson(object(4097));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().message(), "JSON with more than 4096 keys in one object");
  EXPECT_TRUE(ParseJson("[" + object(2100) + "," + object(2100) + "]").ok());
  EXPECT_TRUE(ParseJson("{\"a\":" + object(2100) + ",\"b\":" + object(2100) + "}").ok());
}

TEST(DumpJsonTest, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

TEST(JsonIntTest, MissingKeyGivesTheFallback) {
  EXPECT_EQ(JsonInt(Json::object(), "n", 7, 0, 10).value(), 7);
}

TEST(JsonIntTest, RefusesOtherTypesAndNumbersOutOfRange) {
  for (const char* text : {R"({"n":"1"})", R"({"n":1.0})", R"({"n":true})", R"({"n":null})",
                           R"({"n":-1})", R"({"n":11})", R"({"n":1e99})",
                           R"({"n":18446744073709551615})", R"({"n":99999999999999999999999})"}) {
    const Result<Json> json = ParseJson(text);
    ASSERT_TRUE(json.ok() || json.status().code() == ErrorCode::kProtocolError) << text;
    if (!json.ok()) continue;
    const Result<int64_t> number = JsonInt(*json, "n", 0, 0, 10);
    ASSERT_FALSE(number.ok()) << text;
    EXPECT_NE(number.status().message().find("JSON key n"), std::string::npos);
  }
  const Json top = {{"n", std::numeric_limits<uint64_t>::max()}};
  EXPECT_FALSE(
      JsonInt(top, "n", 0, std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())
          .ok());
}

TEST(JsonIntTest, AcceptsBothEndsOfTheRange) {
  EXPECT_EQ(JsonInt(Json{{"n", 0}}, "n", 5, 0, 10).value(), 0);
  EXPECT_EQ(JsonInt(Json{{"n", 10}}, "n", 5, 0, 10).value(), 10);
  EXPECT_EQ(JsonInt(Json{{"n", -3}}, "n", 5, -3, 10).value(), -3);
}

TEST(JsonBoolTest, TakesOnlyTrueAndFalse) {
  EXPECT_TRUE(JsonBool(Json{{"b", true}}, "b", false).value());
  EXPECT_TRUE(JsonBool(Json::object(), "b", true).value());
  EXPECT_FALSE(JsonBool(Json{{"b", 1}}, "b", false).ok());
}

TEST(JsonStringTest, TakesOnlyStrings) {
  EXPECT_EQ(JsonString(Json{{"s", "x"}}, "s", "y").value(), "x");
  EXPECT_EQ(JsonString(Json::object(), "s", "y").value(), "y");
  EXPECT_FALSE(JsonString(Json{{"s", 1}}, "s", "y").ok());
}

}  // namespace
}  // namespace hvdray
