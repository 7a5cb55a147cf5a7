// SPDX-License-Identifier: Apache-2.0
#include "base/tcp_address.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include <cstring>
#include <string>

namespace hvdray {
namespace {

template <typename T>
std::string BytesOf(const T& end) {
  return std::string(reinterpret_cast<const char*>(&end), sizeof end);
}

sockaddr_in6 Ipv6(const char* text, uint16_t port) {
  sockaddr_in6 end{};
  end.sin6_family = AF_INET6;
  end.sin6_port = htons(port);
  EXPECT_EQ(::inet_pton(AF_INET6, text, &end.sin6_addr), 1);
  return end;
}

TEST(TcpAddressTest, BothFamiliesAreRead) {
  sockaddr_in end{};
  end.sin_family = AF_INET;
  end.sin_port = htons(4711);
  end.sin_addr.s_addr = ::inet_addr("10.0.0.5");
  const auto four = ReadSockaddr(BytesOf(end));
  ASSERT_TRUE(four.has_value());
  EXPECT_EQ(four->ToString(), "10.0.0.5:4711");
  EXPECT_TRUE(four->is_ipv4());
  EXPECT_EQ(four->ipv4(), end.sin_addr.s_addr);
  const auto six = ReadSockaddr(BytesOf(Ipv6("fe80::1", 80)));
  ASSERT_TRUE(six.has_value());
  EXPECT_EQ(six->ToString(), "[fe80::1]:80");
  EXPECT_FALSE(six->is_ipv4());
}

TEST(TcpAddressTest, AMappedAddressIsTheIpv4One) {
  EXPECT_EQ(ReadSockaddr(BytesOf(Ipv6("::ffff:10.0.0.5", 4711))),
            TcpAddress::FromIpv4(::inet_addr("10.0.0.5"), 4711));
}

TEST(TcpAddressTest, NoCertainMachineIsUnspecified) {
  EXPECT_TRUE(TcpAddress::FromIpv4(0, 1).is_unspecified());
  EXPECT_TRUE(ReadSockaddr(BytesOf(Ipv6("::", 1)))->is_unspecified());
  EXPECT_FALSE(ReadSockaddr(BytesOf(Ipv6("::1", 1)))->is_unspecified());
  EXPECT_FALSE(TcpAddress::FromIpv4(::inet_addr("127.0.0.1"), 1).is_unspecified());
}

TEST(TcpAddressTest, KnowsLoopback) {
  EXPECT_TRUE(IsLoopback(0x7F000001U));
  EXPECT_TRUE(IsLoopback(0x7FFFFFFEU));
  EXPECT_FALSE(IsLoopback(0x80000001U));
  EXPECT_FALSE(IsLoopback(0U));
  for (const char* text : {"127.0.0.1", "127.0.1.1", "::1"}) EXPECT_TRUE(IsLoopback(text)) << text;
  for (const char* text : {"", "1270.0.0.1", "128.0.0.1", "::", "localhost"}) {
    EXPECT_FALSE(IsLoopback(text)) << text;
  }
}

TEST(TcpAddressTest, APortIsFrom1To65535) {
  EXPECT_EQ(ParsePort("1"), 1);
  EXPECT_EQ(ParsePort("65535"), 65535);
  for (const char* text : {"", "0", "65536", "-1", "+1", "1 "}) {
    EXPECT_EQ(ParsePort(text), std::nullopt) << text;
  }
}

TEST(TcpAddressTest, CutAndForeignAddressesAreNone) {
  const std::string six = BytesOf(Ipv6("::1", 80));
  for (size_t size = 0; size < six.size(); ++size) {
    EXPECT_FALSE(ReadSockaddr(six.substr(0, size)).has_value()) << size;
  }
  sockaddr_in end{};
  end.sin_family = AF_UNIX;
  EXPECT_FALSE(ReadSockaddr(BytesOf(end)).has_value());
}

}  // namespace
}  // namespace hvdray
