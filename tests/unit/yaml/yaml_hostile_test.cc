// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "base/yaml.h"

namespace hvdray {
namespace {

std::string Times(int n, const std::string& text) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

std::string ErrorOf(std::string_view text) {
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  if (node.ok()) return "no error";
  EXPECT_EQ(node.status().code(), ErrorCode::kSpecInvalid);
  return node.status().message();
}

TEST(YamlHostileTest, DepthIsLimitedTo64) {
  EXPECT_EQ(ErrorOf(Times(63, "[") + "1" + Times(63, "]")), "no error");
  EXPECT_EQ(ErrorOf(Times(64, "[") + "1" + Times(64, "]")), "no error");
  EXPECT_EQ(ErrorOf(Times(65, "[") + "1" + Times(65, "]")),
            "f.yaml:1:65: nested more than 64 deep");
  EXPECT_EQ(ErrorOf(Times(500, "[") + Times(500, "]")), "f.yaml:1:65: nested more than 64 deep");
  EXPECT_EQ(ErrorOf(Times(100'000, "- ")), "f.yaml:1:129: nested more than 64 deep");
  EXPECT_EQ(ErrorOf(Times(200, "{a: ") + Times(200, "}")),
            "f.yaml:1:257: nested more than 64 deep");
  EXPECT_NE(ErrorOf(Times(100'000, "[")), "no error");
  EXPECT_NE(ErrorOf(Times(100'000, "{a: ")), "no error");
}

TEST(YamlHostileTest, AliasesDoNotGetAroundTheDepth) {
  std::string text = "- &a0 [x]\n";
  for (int i = 1; i < 64; ++i) {
    text += "- &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) + "]\n";
  }
  const std::string error = ErrorOf(text);
  EXPECT_NE(error.find("nested more than 64 deep"), std::string::npos) << error;
}

TEST(YamlHostileTest, BillionLaughsAreRefusedWhereTheyPassTheLimit) {
  std::string text = "a0: &a0 [ha, ha, ha, ha, ha, ha, ha, ha, ha]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string alias = "*a" + std::to_string(i - 1);
    text += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + Times(8, alias + ", ") +
            alias + "]\n";
  }
  EXPECT_EQ(ErrorOf(text), "f.yaml:6:20: more than 250000 values with aliases expanded");
}

TEST(YamlHostileTest, LongTextCannotBeMultipliedByAliases) {
  std::string text = "- &big " + std::string(500'000, 'x') + "\n";
  text += Times(1000, "- *big\n");
  EXPECT_NE(ErrorOf(text).find("more than 250000 values"), std::string::npos);
}

TEST(YamlHostileTest, LongKeysCannotBeMultipliedByAliases) {
  std::string text = "- &big {" + std::string(1000, 'x') + ": 1}\n";
  text += Times(30'000, "- *big\n");
  EXPECT_NE(ErrorOf(text).find("more than 250000 values"), std::string::npos);
}

TEST(YamlHostileTest, MergeKeysCannotMultiplyMaps) {
  std::string text = "- &m0 {a: 1";
  for (int i = 0; i < 1000; ++i) text += ", k" + std::to_string(i) + ": 1";
  text += "}\n" + Times(1000, "- {<<: *m0}\n");
  EXPECT_NE(ErrorOf(text).find("more than 250000 values"), std::string::npos);
}

TEST(YamlHostileTest, AnAliasInsideItsOwnValueIsRefused) {
  EXPECT_EQ(ErrorOf("a: &x [*x]\n"), "f.yaml:1:8: this alias refers to the value that contains it");
  EXPECT_EQ(ErrorOf("a: &x {b: *x}\n"),
            "f.yaml:1:11: this alias refers to the value that contains it");
  EXPECT_EQ(ErrorOf("&x {<<: *x}\n"),
            "f.yaml:1:9: this alias refers to the value that contains it");
}

TEST(YamlHostileTest, SizeIsLimitedToOneMebibyte) {
  EXPECT_EQ(ErrorOf("a: " + std::string((1 << 20) - 3, 'x')), "no error");
  EXPECT_EQ(ErrorOf("a: " + std::string((1 << 20) - 2, 'x')),
            "f.yaml:1:1: 1048577 bytes, at most 1048576 allowed");
}

TEST(YamlHostileTest, ManyKeysTakeLinearTime) {
  std::string text;
  for (int i = 0; i < 50'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const Result<YamlNode> node = ParseYaml(text, "f.yaml");
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  EXPECT_EQ(node->entries().size(), 50'000U);
}

TEST(YamlHostileTest, ControlBytesAreRefusedWithTheirPlace) {
  using namespace std::string_literals;
  EXPECT_EQ(ErrorOf("a: 1\nb: \0x\n"s), "f.yaml:2:4: control character 0x00");
  EXPECT_EQ(ErrorOf("a: 1\n\x04\nhidden: 1\n"), "f.yaml:2:1: control character 0x04");
  EXPECT_EQ(ErrorOf("a: \x1b[31m\n"), "f.yaml:1:4: control character 0x1b");
  EXPECT_EQ(ErrorOf("a: \x7f\n"), "f.yaml:1:4: control character 0x7f");
  EXPECT_EQ(ErrorOf("# comment \x01\n"), "f.yaml:1:11: control character 0x01");
}

TEST(YamlHostileTest, OnlyUtf8IsRead) {
  for (const char* text : {"a: \xff\n", "a: \xc0\xaf\n", "a: \xed\xa0\x80\n",
                           "a: \xf5\x80\x80\x80\n", "a: \xe2\x98\n", "a: \xf4\x90\x80\x80\n",
                           "a: \xe0\x80\x80\n", "a: \x80\n", "a: \xf0\x80\x80\x80\n", "a: \xe2"}) {
    EXPECT_EQ(ErrorOf(text), "f.yaml:1:4: not UTF-8 text");
  }
  EXPECT_EQ(ErrorOf(std::string_view("\xff\xfe"
                                     "a\0:\0",
                                     6)),
            "f.yaml:1:1: UTF-16 text");
  EXPECT_EQ(ErrorOf(std::string_view("\xfe\xff\0a\0:", 6)), "f.yaml:1:1: UTF-16 text");
  EXPECT_EQ(ErrorOf("a: \xc3\xbc \xe2\x98\x83 \xf0\x9f\x98\x80\n"), "no error");
}

TEST(YamlHostileTest, DeepAndWideFlowInputEndsInTimeAndMemory) {
  for (const char* piece :
       {"[", "{", "[a,", "{a", "[[],", "&a ", "*a ", "? ", ": ", "\"a", "!", "'"}) {
    const std::string text = Times(100'000, piece);
    (void)ParseYaml(std::string_view(text).substr(0, 100'000), "f.yaml").ok();
  }
}

}  // namespace
}  // namespace hvdray
