// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <string>

#include "base/text.h"

namespace hvdray {
namespace {

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

}  // namespace
}  // namespace hvdray
