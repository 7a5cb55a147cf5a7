#include "base/digest.h"

#include <gtest/gtest.h>

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

TEST(DigestTest, RandomBytesDiffer) {
  EXPECT_EQ(RandomBytes(20).size(), 20u);
  EXPECT_NE(RandomBytes(20), RandomBytes(20));
}

}  // namespace
}  // namespace hvdray
