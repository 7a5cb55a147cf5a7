#include "cluster/ray/seat_address.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(SeatAddressTest, IdentityReadsBackAsItsSeat) {
  EXPECT_EQ(SeatIdentity(7), "hvdray-seat-7");
  for (const int seat : {0, 1, 10, kMaxSeat})
    EXPECT_EQ(ParseSeatIdentity(SeatIdentity(seat)), seat);
}

TEST(SeatAddressTest, OnlyOneSpellingOfASeatCounts) {
  for (const char* text : {"", "hvdray-seat-", "hvdray-seat-07", "hvdray-seat--1", "hvdray-seat-+1",
                           "hvdray-seat-1 ", "hvdray-seat-1x", "hvdray-seat-1000000",
                           "hvdray-seat-99999999999999999999", "Hvdray-seat-1", "seat-1"}) {
    EXPECT_EQ(ParseSeatIdentity(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseSeatIdentity(std::string_view("hvdray-seat-1\0", 14)), std::nullopt);
}

TEST(SeatAddressTest, ListOfLiteralsReadsBackAsWritten) {
  const char* const text = "10.0.0.5:4711,[fd00::5]:1,127.0.0.1:65535";
  const auto addresses = ParseSeatAddresses(text);
  ASSERT_TRUE(addresses.ok());
  ASSERT_EQ(addresses->size(), 3u);
  EXPECT_EQ(addresses->at(1).port, 1);
  EXPECT_EQ(FormatSeatAddresses(*addresses), text);
}

TEST(SeatAddressTest, WhatIsNoLiteralWithAPortIsAUsageErrorThatNamesIt) {
  for (const char* text :
       {"", "10.0.0.5", "10.0.0.5:", "10.0.0.5:0", "10.0.0.5:65536", "head:80", "fd00::5:80",
        "[10.0.0.5]:80", "[]:80", "[fd00::5:80", "10.0.0.5:80,", ",10.0.0.5:80", "10.0.0.5:8x",
        "0.0.0.0:80", "[::]:80", "[fe80::1%eth0]:80", "10.0.0.5:080"}) {
    const auto addresses = ParseSeatAddresses(text);
    ASSERT_FALSE(addresses.ok()) << text;
    EXPECT_EQ(addresses.status().code(), ErrorCode::kUsage);
  }
  EXPECT_NE(ParseSeatAddresses("head:80").status().message().find("'head:80'"), std::string::npos);
}

TEST(SeatAddressTest, MoreThanSixteenAreTooMany) {
  std::string text = "10.0.0.1:1";
  for (int i = 1; i < 16; ++i) text += ",10.0.0.1:1";
  EXPECT_TRUE(ParseSeatAddresses(text).ok());
  EXPECT_FALSE(ParseSeatAddresses(text + ",10.0.0.1:1").ok());
}

}  // namespace
}  // namespace hvdray
