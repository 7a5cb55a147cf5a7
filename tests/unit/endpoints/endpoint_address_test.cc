// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/endpoint_address.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

TEST(EndpointAddressTest, IdentityReadsBackAsItsEndpoint) {
  EXPECT_EQ(EndpointIdentity(7), "hvdray-endpoint-7");
  for (const int endpoint : {0, 1, 10, kMaxEndpoint})
    EXPECT_EQ(ParseEndpointIdentity(EndpointIdentity(endpoint)), endpoint);
}

TEST(EndpointAddressTest, OnlyOneSpellingOfAEndpointCounts) {
  for (const char* text :
       {"", "hvdray-endpoint-", "hvdray-endpoint-07", "hvdray-endpoint--1", "hvdray-endpoint-+1",
        "hvdray-endpoint-1 ", "hvdray-endpoint-1x", "hvdray-endpoint-1000000",
        "hvdray-endpoint-99999999999999999999", "Hvdray-endpoint-1", "endpoint-1"}) {
    EXPECT_EQ(ParseEndpointIdentity(text), std::nullopt) << text;
  }
  EXPECT_EQ(ParseEndpointIdentity(std::string_view("hvdray-endpoint-1\0", 14)), std::nullopt);
}

TEST(EndpointAddressTest, ListOfLiteralsReadsBackAsWritten) {
  const char* const text = "10.0.0.5:4711,[fd00::5]:1,127.0.0.1:65535";
  const auto addresses = ParseEndpointAddresses(text);
  ASSERT_TRUE(addresses.ok());
  ASSERT_EQ(addresses->size(), 3u);
  EXPECT_EQ(addresses->at(1).port, 1);
  EXPECT_EQ(FormatEndpointAddresses(*addresses), text);
}

TEST(EndpointAddressTest, WhatIsNoLiteralWithAPortIsAUsageErrorThatNamesIt) {
  for (const char* text :
       {"", "10.0.0.5", "10.0.0.5:", "10.0.0.5:0", "10.0.0.5:65536", "head:80", "fd00::5:80",
        "[10.0.0.5]:80", "[]:80", "[fd00::5:80", "10.0.0.5:80,", ",10.0.0.5:80", "10.0.0.5:8x",
        "0.0.0.0:80", "[::]:80", "[fe80::1%eth0]:80", "10.0.0.5:080"}) {
    const auto addresses = ParseEndpointAddresses(text);
    ASSERT_FALSE(addresses.ok()) << text;
    EXPECT_EQ(addresses.status().code(), ErrorCode::kUsage);
  }
  EXPECT_NE(ParseEndpointAddresses("head:80").status().message().find("'head:80'"),
            std::string::npos);
}

TEST(EndpointAddressTest, MoreThanSixteenAreTooMany) {
  std::string text = "10.0.0.1:1";
  for (int i = 1; i < 16; ++i) text += ",10.0.0.1:1";
  EXPECT_TRUE(ParseEndpointAddresses(text).ok());
  EXPECT_FALSE(ParseEndpointAddresses(text + ",10.0.0.1:1").ok());
}

}  // namespace
}  // namespace hvdray
