// SPDX-License-Identifier: Apache-2.0
// The -H option: Horovod's form, its extensions, and what is refused in whose words.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

using Hosts = std::vector<HostSlots>;

std::string Shown(const Result<Hosts>& result) {
  if (!result.ok()) {
    EXPECT_EQ(result.status().code(), ErrorCode::kSpecInvalid);
    return result.status().message();
  }
  std::string out;
  for (const HostSlots& host : *result) out += fmt::format("{}={} ", host.host, host.slots);
  return out;
}

constexpr const char* kHorovodWords =
    "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2.";

TEST(HostListTest, KeepsTheOrder) {
  EXPECT_EQ(Shown(ParseHostList("b:2,a:1,c:0")), "b=2 a=1 c=0 ");
  EXPECT_EQ(Shown(ParseHostList(" worker-0:2 ,\tnode_1.example.com:16\n")),
            "worker-0=2 node_1.example.com=16 ");
  EXPECT_EQ(Shown(ParseHostList("10.0.0.1:4")), "10.0.0.1=4 ");
}

TEST(HostListTest, TakesUsersPortsAddressesAndRanges) {
  const Result<Hosts> hosts = ParseHostList(
      "alice@a:1, ssh://b:2222:2,ssh://bob@c:22:3,[FE80:0::1]:4,u@[::1]:5,"
      "ssh://[::2]:6:7,v@n[1,03-04]:8");
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_EQ(*hosts, (Hosts{{"a", 1, {"", "alice", 0}},
                           {"b", 2, {"", "", 2222}},
                           {"c", 3, {"", "bob", 22}},
                           {"fe80--1", 4, {"fe80::1", "", 0}},
                           {"0--1", 5, {"::1", "u", 0}},
                           {"0--2", 7, {"::2", "", 6}},
                           {"n1", 8, {"", "v", 0}},
                           {"n03", 8, {"", "v", 0}},
                           {"n04", 8, {"", "v", 0}}}));
  EXPECT_EQ((*hosts)[3].dial_name(), "fe80::1");
  EXPECT_EQ((*hosts)[6].dial_name(), "n1");
}

TEST(HostListTest, RefusesInHorovodsWordsAndNamesTheItem) {
  for (const char* list :
       {"",          ",",        "a",          "a:",     ":2",      "a:2,",
        ",a:2",      "a:2,,b:2", "a:-1",       "a:+1",   "a:x",     "a:2:3",
        "a b:2",     "::1:2",    "a:1.5",      "user@a", "[::1]",   "n[1-2]",
        "-oProxy:2", "a:2;b:2",  "\xC3\xBC:2", "a: 2",   "ssh://a", "ssh://a:22"}) {
    EXPECT_EQ(Shown(ParseHostList(list)), kHorovodWords) << list;
  }
  EXPECT_EQ(ParseHostList("a:2,b").status().hint(), "item 2 is 'b'");
  EXPECT_EQ(ParseHostList("a:2,b:2:3").status().hint(),
            "item 2 is 'b:2:3'; a port is written ssh://host:port:slots, an IPv6 address "
            "[::1]:slots");
  EXPECT_EQ(ParseHostList(std::string_view("a:2\0b", 5)).status().hint(), "item 1 is 'a:2\\x00b'");
}

TEST(HostListTest, SaysWhatIsWrongWithAnExtension) {
  const std::pair<const char*, const char*> table[] = {
      {"a:1,n[3-1]:1", "item 2 ('n[3-1]:1'): range 3-1 is reversed"},
      {"n[1-2:1", "item 1 ('n[1-2:1'): this bracket is not closed"},
      {"n[1-2,b:1", "item 1 ('n[1-2,b:1'): this bracket is not closed"},
      {"n[1-100001]:1", "item 1 ('n[1-100001]:1'): over 100000 hosts"},
      {"a:1,ssh://b:0:1", "item 2 ('ssh://b:0:1'): port '0' is not within 1 to 65535"},
      {"ssh://b:65536:1", "item 1 ('ssh://b:65536:1'): port '65536' is not within 1 to 65535"},
      {"ssh://b::1", "item 1 ('ssh://b::1'): port '' is not within 1 to 65535"},
      {"@b:1", "item 1 ('@b:1'): '' is not a user name"},
      {"-u@b:1", "item 1 ('-u@b:1'): '-u' is not a user name"},
      {"u v@b:1", "item 1 ('u v@b:1'): 'u v' is not a user name"},
      {"[::g]:1", "item 1 ('[::g]:1'): '[::g]:1' is not an IPv6 address in brackets"},
      {"[::1]2:1", "item 1 ('[::1]2:1'): '[::1]2:1' is not an IPv6 address in brackets"},
  };
  for (const auto& [list, wanted] : table) {
    EXPECT_EQ(Shown(ParseHostList(list)), wanted) << list;
  }
}

TEST(HostListTest, RefusesAHostThatIsListedTwiceNamingBoth) {
  const Result<Hosts> result = ParseHostList("a:2,b:2,a:3");
  EXPECT_EQ(Shown(result), "host a is listed twice: items 1 and 3");
  EXPECT_EQ(result.status().hint(), "add the slots up: a:5");
  EXPECT_EQ(Shown(ParseHostList("n[1-3]:2,n[3-9]:2")), "host n3 is listed twice: items 1 and 2");
  EXPECT_EQ(Shown(ParseHostList("a:1,n[1-3,2]:2")),
            "host n2 is listed twice: both times in item 2");
  EXPECT_EQ(Shown(ParseHostList("ssh://a:22:1,ssh://a:23:1")),
            "host a is listed twice: items 1 and 2");
  EXPECT_EQ(Shown(ParseHostList("[::1]:1,[0::1]:1")), "host 0--1 is listed twice: items 1 and 2");
}

TEST(HostListTest, SlotsHaveALimit) {
  EXPECT_EQ(Shown(ParseHostList("a:65536")), "a=65536 ");
  EXPECT_EQ(Shown(ParseHostList("a:65537")),
            "item 1 ('a:65537'): slots=65537 is not within 0 to 65536");
  EXPECT_EQ(
      Shown(ParseHostList("a:99999999999999999999")),
      "item 1 ('a:99999999999999999999'): slots=99999999999999999999 is not within 0 to 65536");
}

TEST(HostListTest, NumberOfHostsHasALimit) {
  std::string list;
  for (int i = 0; i < 100'000; ++i) list += fmt::format("{}h{}:1", i == 0 ? "" : ",", i);
  EXPECT_TRUE(ParseHostList(list).ok());
  EXPECT_EQ(Shown(ParseHostList(list + ",i:1")), "item 100001 ('i:1'): over 100000 hosts");
  EXPECT_EQ(Shown(ParseHostList(list + ",[::1]:1")), "item 100001 ('[::1]:1'): over 100000 hosts");
}

TEST(HostWordTest, PlainNamesOfAddressesHaveNoColonAndAreOnePerAddress) {
  const std::pair<const char*, const char*> table[] = {{"::1", "0--1"},
                                                       {"::", "0--0"},
                                                       {"fe80::", "fe80--0"},
                                                       {"FE80::A", "fe80--a"},
                                                       {"fe80:0:0::a", "fe80--a"},
                                                       {"fe80::1%eth0", "fe80--1_eth0"},
                                                       {"1:2:3:4:5:6:7:8", "1-2-3-4-5-6-7-8"},
                                                       {"::ffff:10.0.0.1", "0--ffff-10.0.0.1"}};
  for (const auto& [address, name] : table) {
    const HostSlots host = MakeHostSlots(address, 3);
    EXPECT_EQ(host.host, name);
    EXPECT_TRUE(IsHostName(host.host));
    EXPECT_NE(host.dial_name().find(':'), std::string::npos);
  }
  EXPECT_EQ(MakeHostSlots("node1", 3), (HostSlots{"node1", 3}));
  EXPECT_EQ(MakeHostSlots("10.0.0.1", 3), (HostSlots{"10.0.0.1", 3}));
  for (const char* zone :
       {"fe80::1%", "fe80::1%a b", "fe80::1%-x", "fe80::1%a/b", "fe80::1%0123456789abcdef"}) {
    EXPECT_FALSE(ParseHostList(fmt::format("[{}]:1", zone)).ok()) << zone;
  }
}

TEST(HostWordTest, TextOfAHostReadsBackAsTheSame) {
  for (const char* text : {"a:1", "u@a:2", "ssh://a:22:0", "ssh://u@a:65535:1", "[fe80::1%eth0]:4",
                           "u@[::1]:4", "ssh://u@[fe80::1]:2222:4", "10.0.0.1:4"}) {
    const Result<Hosts> hosts = ParseHostList(text);
    ASSERT_TRUE(hosts.ok()) << text << ": " << hosts.status().ToString();
    ASSERT_EQ(hosts->size(), 1U);
    EXPECT_EQ(HostText(hosts->front()), text);
  }
}

TEST(HostWordTest, ANulByteInAnAddressIsNoEndOfIt) {
  EXPECT_FALSE(ParseHostList(std::string_view("[::1\0x]:2", 9)).ok());
}

}  // namespace
}  // namespace hvdray
