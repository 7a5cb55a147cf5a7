// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/cidr.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(CidrTest, ReadsRangesAndSingleAddresses) {
  const auto ranges = ParseCidrList("10.1.0.0/16, 192.168.7.4,0.0.0.0/0,255.255.255.255/32");
  ASSERT_TRUE(ranges.ok()) << ranges.status().ToString();
  ASSERT_EQ(ranges->size(), 4U);
  EXPECT_EQ((*ranges)[0], (Cidr{0x0a010000, 16}));
  EXPECT_EQ((*ranges)[1], (Cidr{0xc0a80704, 32}));
  EXPECT_EQ((*ranges)[2], (Cidr{0, 0}));
  EXPECT_EQ((*ranges)[3], (Cidr{0xffffffff, 32}));
}

TEST(CidrTest, RefusesWhatTwoReadersCouldTakeForTwoThings) {
  for (const char* list :
       {"", ",", "10.0.0.0/8,", "10.0.0", "10.0.0.0.0", "10.0.0.256", "10.0.0.0/33", "10.0.0.0/",
        "10.0.0.0/-1", "10.0.0.0/08", "010.0.0.0/8", "10.0.0.1/8", "0x0a.0.0.0/8", "localhost",
        "::1", "10.0.0.0 /8", "10..0.0/8", "10.0.0.0/8/8", "+1.0.0.0"}) {
    const auto ranges = ParseCidrList(list);
    EXPECT_FALSE(ranges.ok()) << list;
    EXPECT_EQ(ranges.status().code(), ErrorCode::kUsage) << list;
  }
}

TEST(CidrTest, ContainsTheEdgesOfARangeAndNothingBeside) {
  const auto ranges = ParseCidrList("10.1.0.0/16,192.168.7.4").value();
  EXPECT_TRUE(Contains(ranges, 0x0a010000));
  EXPECT_TRUE(Contains(ranges, 0x0a01ffff));
  EXPECT_FALSE(Contains(ranges, 0x0a020000));
  EXPECT_FALSE(Contains(ranges, 0x0a00ffff));
  EXPECT_TRUE(Contains(ranges, 0xc0a80704));
  EXPECT_FALSE(Contains(ranges, 0xc0a80705));
  EXPECT_FALSE(Contains({}, 0x0a010000));
  EXPECT_TRUE(Contains(ParseCidrList("0.0.0.0/0").value(), 0xffffffff));
}

}  // namespace
}  // namespace hvdray
