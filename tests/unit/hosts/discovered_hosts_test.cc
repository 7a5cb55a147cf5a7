// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

using Hosts = std::vector<HostSlots>;

Hosts Read(std::string_view text, std::optional<int> default_slots = 4) {
  std::string warning = "of an earlier list";
  const auto hosts = ParseDiscoveredHosts(text, default_slots, &warning);
  EXPECT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_EQ(warning, "");
  return hosts.ok() ? *hosts : Hosts();
}

Status Refusal(std::string_view text, std::optional<int> default_slots = 4) {
  std::string warning;
  const auto hosts = ParseDiscoveredHosts(text, default_slots, &warning);
  EXPECT_FALSE(hosts.ok());
  if (hosts.ok()) return {};
  EXPECT_EQ(hosts.status().code(), ErrorCode::kSpecInvalid);
  EXPECT_FALSE(hosts.status().hint().empty());
  return hosts.status();
}

TEST(DiscoveredHostsTest, VectorsOfTheSpec) {
  EXPECT_EQ(Read(""), Hosts());
  EXPECT_EQ(Read("host-1"), (Hosts{{"host-1", 4}}));
  EXPECT_EQ(Read("host-1:2\n\nhost-4:3"), (Hosts{{"host-1", 2}, {"host-4", 3}}));
}

TEST(DiscoveredHostsTest, OrderIsKeptAndBlanksDoNotCount) {
  EXPECT_EQ(Read("\n  z:1 \r\n\ta:0\n\n \n"), (Hosts{{"z", 1}, {"a", 0}}));
}

TEST(DiscoveredHostsTest, HostsAreWrittenAsInTheHostsOption) {
  EXPECT_EQ(Read("n[1-2]:3\nuser@a\n[::1]:2\nssh://b:2222:5\nssh://c:22", 7),
            (Hosts{{"n1", 3},
                   {"n2", 3},
                   {"a", 7, {.user = "user"}},
                   {"0--1", 2, {.name = "::1"}},
                   {"b", 5, {.port = 2222}},
                   {"c", 7, {.port = 22}}}));
}

TEST(DiscoveredHostsTest, GarbageIsRefusedWithItsLine) {
  EXPECT_EQ(Refusal("a:1\n\nb:2:3").message(), "line 3: 'b:2:3' has too many colons");
  EXPECT_EQ(Refusal("a:two").message(),
            "line 1: slots 'two' of 'a:two' are not a number from 0 to 65536");
  for (const char* line : {"a:-1", "a:", "a:1.5", "a:65537", "a:99999999999", "a b", "a,b", "-oX:1",
                           "Traceback (most recent call last):", "<html>", "# host", "\x01\xff",
                           "n[3-1]:1", "n[1-999999]:1", ":4", "[::1:2", "ssh://a:0:1"}) {
    EXPECT_EQ(Refusal(line).message().find("line 1: "), 0U) << line;
  }
}

TEST(DiscoveredHostsTest, HostWithoutSlotsNeedsTheOption) {
  EXPECT_EQ(Refusal("a:1\nb", std::nullopt).message(), "line 2: host b has no slots");
  EXPECT_NE(Refusal("b", std::nullopt).hint().find("--slots-per-host"), std::string::npos);
  EXPECT_EQ(Read("a:1", std::nullopt), (Hosts{{"a", 1}}));
}

TEST(DiscoveredHostsTest, HostThatComesAgainKeepsItsPlaceAndItsFirstLineCounts) {
  EXPECT_EQ(Read("a:2\nb:1\na:2"), (Hosts{{"a", 2}, {"b", 1}}))
      << "the same line twice is harmless";
  std::string warning;
  const auto hosts = ParseDiscoveredHosts("a:2\nb:1\nu@a:2\na:3", 4, &warning);
  ASSERT_TRUE(hosts.ok());
  EXPECT_EQ(*hosts, (Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(warning,
            "the discovery script prints host a twice, 'a:2' in line 1 and 'u@a:2' in line 3: the "
            "first counts");
}

TEST(DiscoveredHostsTest, NoMoreThanAHundredThousandHosts) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "x" + std::to_string(i) + "-[1-1000]:1\n";
  EXPECT_EQ(Read(text).size(), kMaxHosts);
  EXPECT_EQ(Refusal(text + "one-more:1").message().find("line 101: "), 0U);
}

}  // namespace
}  // namespace hvdray
