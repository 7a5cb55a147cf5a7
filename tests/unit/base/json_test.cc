// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <gtest/gtest.h>

#include "tests/fakes/fault_catalogue.h"

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

TEST(ParseJsonTest, ANumberOutOfRangeIsNotRepeatedInTheMessage) {
  const Result<Json> json = ParseJson("[1e" + std::string(100'000, '9') + "]");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.status().code(), ErrorCode::kProtocolError);
  EXPECT_EQ(json.status().message(), "JSON with a number out of range");
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
  ExpectSays(refused.status().message(), {"4096 keys"});
  EXPECT_TRUE(ParseJson("[" + object(2100) + "," + object(2100) + "]").ok());
  EXPECT_TRUE(ParseJson("{\"a\":" + object(2100) + ",\"b\":" + object(2100) + "}").ok());
}

TEST(DumpJsonTest, ReplacesBytesThatAreNotUtf8) {
  EXPECT_EQ(DumpJson(Json("a\xff")), "\"a\xef\xbf\xbd\"");
}

}  // namespace
}  // namespace hvdray
