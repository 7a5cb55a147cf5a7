// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace hvdray
