// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "base/text.h"

namespace hvdray {
namespace {

TEST(ShownTextTest, WhatATerminalWouldObeyIsShownAsBytes) {
  EXPECT_EQ(ShownText("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
  EXPECT_EQ(ShownText("eight bits \x9b"
                      "2J"),
            "eight bits \\x9b2J");
  EXPECT_EQ(ShownText("two bytes \xc2\x9b"
                      "2J"),
            "two bytes \\xc2\\x9b2J");
  EXPECT_EQ(ShownText("turned \xe2\x80\xae"
                      "txt"),
            "turned \\xe2\\x80\\xaetxt");
  EXPECT_EQ(ShownText("\xe2\x81\xa6 \xe2\x80\x8f \xd8\x9c"),
            "\\xe2\\x81\\xa6 \\xe2\\x80\\x8f \\xd8\\x9c");
  EXPECT_EQ(ShownText("caf\xe9"), "caf\\xe9") << "no UTF-8";
  EXPECT_EQ(ShownText("Größe, 日本, \xc3\x9b, \xe2\x80\xa6"),
            "Größe, 日本, \xc3\x9b, \xe2\x80\xa6");
}

TEST(ShownTextTest, IsCutBetweenCharacters) {
  EXPECT_EQ(ShownText("äöü", 3), "äö...");
  EXPECT_EQ(ShownText("abc", 3), "abc");
}

TEST(ShownLineTest, ColorsGoAndTheTextStays) {
  EXPECT_EQ(ShownLine("\x1b[1;31mred\x1b[0m\ttab\x07"), "red\ttab");
  EXPECT_EQ(ShownLine("a\rb\nc"), "a b c");
  EXPECT_EQ(ShownLine("cut \x1b["), "cut ");
  EXPECT_EQ(ShownLine("\x1b"), "");
  EXPECT_EQ(ShownLine("\x9b"
                      "31m \xc2\x85 Größe"),
            "\\x9b31m \\xc2\\x85 Größe");
  const std::string all = [] {
    std::string bytes;
    for (int c = 0; c < 256; ++c) bytes += static_cast<char>(c);
    return bytes;
  }();
  for (const char c : ShownLine(all)) {
    EXPECT_TRUE((c >= 0x20 && c < 0x7f) || c == '\t') << static_cast<int>(c);
  }
}

}  // namespace
}  // namespace hvdray
