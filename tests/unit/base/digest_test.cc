// SPDX-License-Identifier: Apache-2.0
#include "base/digest.h"

#include <gtest/gtest.h>

#include "base/secrets_equal.h"

namespace hvdray {
namespace {

TEST(DigestTest, Sha256AgreesWithTheVectorsOfFips180) {
  EXPECT_EQ(Hex(Sha256("")), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Hex(Sha256("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(DigestTest, HmacSha1AgreesWithTheVectorsOfRfc2202) {
  EXPECT_EQ(Hex(HmacSha1(std::string(20, '\x0b'), "Hi There")),
            "b617318655057264e28bc0b6fb378c8ef146be00");
  EXPECT_EQ(Hex(HmacSha1("Jefe", "what do ya want for nothing?")),
            "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
}

TEST(DigestTest, HmacSha256AgreesWithTheVectorsOfRfc4231) {
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\x0b'), "Hi There")),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(Hex(HmacSha256("Jefe", "what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(Hex(HmacSha256(std::string(20, '\xaa'), std::string(50, '\xdd'))),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
}

TEST(DigestTest, AnHmacKeyLongerThanABlockIsHashedFirst) {
  EXPECT_EQ(Hex(HmacSha256(std::string(131, '\xaa'),
                           "Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(DigestTest, SecretsAreEqualOnlyWhole) {
  EXPECT_TRUE(SecretsEqual("abc", "abc"));
  for (const char* other : {"abd", "xbc", "axc", "ab", "abcd", ""}) {
    EXPECT_FALSE(SecretsEqual("abc", other)) << other;
  }
  EXPECT_TRUE(SecretsEqual("", ""));
}

TEST(DigestTest, RandomBytesDiffer) {
  EXPECT_EQ(RandomBytes(20).size(), 20u);
  EXPECT_NE(RandomBytes(20), RandomBytes(20));
}

}  // namespace
}  // namespace hvdray
