// SPDX-License-Identifier: Apache-2.0
#include "base/base64.h"

#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

std::string Decoded(std::string_view text, size_t limit_bytes = 1000) {
  const Result<std::string> bytes = DecodeBase64(text, limit_bytes);
  return bytes.ok() ? *bytes : "refused";
}

TEST(Base64Test, DecodesTheVectorsOfTheStandard) {
  EXPECT_EQ(Decoded(""), "");
  EXPECT_EQ(Decoded("Zg=="), "f");
  EXPECT_EQ(Decoded("Zm8="), "fo");
  EXPECT_EQ(Decoded("Zm9v"), "foo");
  EXPECT_EQ(Decoded("Zm9vYg=="), "foob");
  EXPECT_EQ(Decoded("Zm9vYmE="), "fooba");
  EXPECT_EQ(Decoded("Zm9vYmFy"), "foobar");
  EXPECT_EQ(Decoded("+/+/"), "\xfb\xff\xbf");
  EXPECT_EQ(Decoded("AAAA"), std::string(3, '\0'));
}

TEST(Base64Test, EncodesWhatItDecodes) {
  for (const char* text :
       {"", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy", "+/+/"}) {
    EXPECT_EQ(EncodeBase64(Decoded(text)), text);
  }
}

TEST(Base64Test, RefusesWhatPythonWouldLetPass) {
  for (const char* text : {"Zm9v\n", "Zm 9v", " Zm9v", "Zm9vZg==\n", "Zm9-", "Zm9_", "Zm9\x80"}) {
    EXPECT_EQ(Decoded(text), "refused") << text;
  }
  EXPECT_EQ(Decoded(std::string_view("Zm9\0", 4)), "refused");
}

TEST(Base64Test, RefusesWrongPadding) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zm8", "====", "Z===", "=g==", "Zg==Zg==", "Zg=a",
                           "Zm9v====", "Zm9v=", "=", "=="}) {
    EXPECT_EQ(Decoded(text), "refused") << text;
  }
}

TEST(Base64Test, RefusesSpareBitsSoThatEachValueHasOneText) {
  EXPECT_EQ(Decoded("Zh=="), "refused");
  EXPECT_EQ(Decoded("Zm9="), "refused");
}

TEST(Base64Test, RefusesMoreThanTheLimitBeforeDecodingIt) {
  EXPECT_EQ(Decoded("Zm9v", 3), "foo");
  EXPECT_EQ(Decoded("Zm9v", 2), "refused");
  EXPECT_EQ(Decoded("Zm8=", 2), "fo");
  EXPECT_EQ(Decoded(std::string(4000, 'A'), 2999), "refused");
}

TEST(Base64Test, SaysWhereItStopped) {
  const Result<std::string> bytes = DecodeBase64("Zm9vZ!==", 100);
  ASSERT_FALSE(bytes.ok());
  EXPECT_EQ(bytes.status().code(), ErrorCode::kKvRejected);
  EXPECT_NE(bytes.status().message().find("offset 5"), std::string::npos);
}

}  // namespace
}  // namespace hvdray
