// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/hostfile.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

namespace hvdray {
namespace {

using Hosts = std::vector<HostSlots>;

Result<Hosts> File(std::string_view text) { return ParseHostfile(text, "hosts"); }

std::string Shown(const Result<Hosts>& result) {
  if (!result.ok()) {
    EXPECT_EQ(result.status().code(), ErrorCode::kSpecInvalid);
    return result.status().message();
  }
  std::string out;
  for (const HostSlots& host : *result) out += fmt::format("{}={} ", host.host, host.slots);
  return out;
}

TEST(HostfileTest, ReadsHorovodsForm) {
  EXPECT_EQ(Shown(File("node1 slots=2\nnode2 slots=4\n")), "node1=2 node2=4 ");
  EXPECT_EQ(Shown(File("node1 slots=2")), "node1=2 ") << "no line break at the end";
  EXPECT_EQ(Shown(File("node1 slots=0\n")), "node1=0 ");
}

TEST(HostfileTest, ToleratesBlanksCommentsAndLooseSpacing) {
  EXPECT_EQ(Shown(File("# my hosts\n\n   \t\n  node1   slots = 2  # big one\n\tnode2\tslots =4\r\n"
                       "node3 slots= 1\r\n#node4 slots=9\n")),
            "node1=2 node2=4 node3=1 ");
  EXPECT_EQ(Shown(File("\xEF\xBB\xBFnode1 slots=2\n")), "node1=2 ");
}

TEST(HostfileTest, ReadsOpenMpisAndHydrasForms) {
  EXPECT_EQ(Shown(File("a slots=2 max_slots=4\nb max-slots=8 slots=3 rack=7\n")), "a=2 b=3 ");
  EXPECT_EQ(Shown(File("a:2\nb:0\nc:16 binding=user\n")), "a=2 b=0 c=16 ");
  EXPECT_EQ(Shown(File("a slots=4 max_slots=4\n")), "a=4 ");
}

TEST(HostfileTest, TakesUserAndPortInTheHostOrBehindIt) {
  const Result<Hosts> hosts = File(
      "alice@a slots=2\n"
      "ssh://bob@b:2222 slots=2\n"
      "ssh://c:2222:2\n"
      "d slots=2 port=2222 user=dora\n"
      "e port = 22 slots=2 username=eve-1.x+y\n"
      "[::1]:2 port=2222\n"
      "ssh://[fe80::1%eth0] slots=2\n");
  ASSERT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_EQ(*hosts, (Hosts{{"a", 2, {"", "alice", 0}},
                           {"b", 2, {"", "bob", 2222}},
                           {"c", 2, {"", "", 2222}},
                           {"d", 2, {"", "dora", 2222}},
                           {"e", 2, {"", "eve-1.x+y", 22}},
                           {"0--1", 2, {"::1", "", 2222}},
                           {"fe80--1_eth0", 2, {"fe80::1%eth0", "", 0}}}));
}

TEST(HostfileTest, ARangeGivesEveryHostWhatItsLineSays) {
  const Result<Hosts> hosts = File("x slots=1\nbob@n[08-10,12]-ib slots=2 port=22\ny:3\n");
  EXPECT_EQ(Shown(hosts), "x=1 n08-ib=2 n09-ib=2 n10-ib=2 n12-ib=2 y=3 ");
  EXPECT_EQ((*hosts)[4].address, (HostAddress{"", "bob", 22}));
}

TEST(HostfileTest, RefusesGarbageWithItsPlace) {
  const std::pair<const char*, const char*> table[] = {
      {"a slots=2\nb\n", "hosts:2:2: host b has no slots"},
      {"a max_slots=2\n", "hosts:1:2: host a has no slots"},
      {"a slots\n", "hosts:1:3: 'slots' is not key=value"},
      {"a slot=4\n", "hosts:1:3: unknown key 'slot'"},
      {"a slots=4 prot=22\n", "hosts:1:11: unknown key 'prot'"},
      {"a slots=4 maxslots=8\n", "hosts:1:11: unknown key 'maxslots'"},
      {"a slots=\n", "hosts:1:3: 'slots' is not key=value"},
      {"a slots==2\n", "hosts:1:3: 'slots' is not key=value"},
      {"a =2\n", "hosts:1:3: '=' is not key=value"},
      {"a 2\n", "hosts:1:3: '2' is not key=value"},
      {"a b slots=2\n", "hosts:1:3: 'b' is not key=value"},
      {"a slots=two\n", "hosts:1:9: slots='two' is not a number"},
      {"a slots=-1\n", "hosts:1:9: slots='-1' is not a number"},
      {"a slots=2,\n", "hosts:1:9: slots='2,' is not a number"},
      {"a slots=65537\n", "hosts:1:9: slots=65537 is not within 0 to 65536"},
      {"a:\n", "hosts:1:3: slots='' is not a number"},
      {"a:x\n", "hosts:1:3: slots='x' is not a number"},
      {"a:2 slots=2\n", "hosts:1:5: slots are given twice in this line"},
      {"a slots=2 slots=2\n", "hosts:1:11: slots are given twice in this line"},
      {"\n\n!!\n", "hosts:3:1: '!!' is not a host name"},
      {"  a/b slots=2\n", "hosts:1:3: 'a/b' is not a host name"},
      {"-oProxyCommand=x slots=2\n", "hosts:1:1: '-oProxyCommand' is not a host name"},
      {"[::1]x slots=2\n", "hosts:1:1: '[::1]x' is not an IPv6 address in brackets"},
      {"u@[::x]:2\n", "hosts:1:3: '[::x]:2' is not an IPv6 address in brackets"},
      {"[::1 slots=2\n", "hosts:1:1: '[::1' is not an IPv6 address in brackets"},
      {"::1 slots=2\n", "hosts:1:1: '::1' has too many colons"},
      {"a:2:3\n", "hosts:1:1: 'a:2:3' has too many colons"},
      {" ssh://a:2:3:4\n", "hosts:1:2: 'ssh://a:2:3:4' has too many colons"},
      {" a b=1 slots=1 max_slots=x\n", "hosts:1:26: max_slots='x' is not a number"},
      {"a slots=4 max_slots=2\n", "hosts:1:21: max_slots=2 is below slots=4"},
      {"a slots=4 max-slots=99999\n", "hosts:1:21: max_slots=99999 is not within 0 to 65536"},
      {"a slots=1 max_slots=2 max-slots=2\n", "hosts:1:23: max_slots is given twice in this line"},
      {"a slots=1 port=0\n", "hosts:1:16: port '0' is not within 1 to 65535"},
      {"a slots=1 port=65536\n", "hosts:1:16: port '65536' is not within 1 to 65535"},
      {"a slots=1 port=-1\n", "hosts:1:16: port '-1' is not within 1 to 65535"},
      {"a slots=1 port=22x\n", "hosts:1:16: port '22x' is not within 1 to 65535"},
      {" ssh://a:70000 slots=1\n", "hosts:1:10: port '70000' is not within 1 to 65535"},
      {"ssh://a: slots=1\n", "hosts:1:9: port '' is not within 1 to 65535"},
      {"ssh://a:22 slots=1 port=22\n", "hosts:1:20: port is given twice in this line"},
      {"ssh://a:22\n", "hosts:1:11: host a has no slots"},
      {"u@a slots=1 user=v\n", "hosts:1:13: user is given twice in this line"},
      {"-l@a slots=1\n", "hosts:1:1: '-l' is not a user name"},
      {"@a slots=1\n", "hosts:1:1: '' is not a user name"},
      {"u@v@a slots=1\n", "hosts:1:1: 'u@v' is not a user name"},
      {"a slots=1 user=$(x)\n", "hosts:1:16: '$(x)' is not a user name"},
      {"u@ slots=1\n", "hosts:1:3: '' is not a host name"},
      {"\n\n  n[3-1] slots=1\n", "hosts:3:5: range 3-1 is reversed"},
      {"u@n[1,x] slots=1\n", "hosts:1:7: 'x' is not a number or a range of numbers"},
      {"n[1-2 slots=1\n", "hosts:1:2: this bracket is not closed"},
      {"n1] slots=1\n", "hosts:1:3: ']' without a '[' before it"},
      {"n[1-100001] slots=1\n", "hosts:1:1: over 100000 hosts"},
      {"slots=2\n", "hosts:1:6: '=' is not key=value"},
      {"\x7f"
       "ELF\x02\x01\n",
       "hosts:1:1: '\\x7fELF\\x02\\x01' is not a host name"},
      {"a slots=2\rb slots=2\n", "hosts:1:13: slots are given twice in this line"},
  };
  for (const auto& [text, wanted] : table) {
    EXPECT_EQ(Shown(File(text)), wanted) << text;
  }
  EXPECT_EQ(File("b\n").status().hint(), "one host a line: 'node1 slots=4' or 'node1:4'");
}

TEST(HostfileTest, RefusesAHostThatIsListedTwiceNamingBothLines) {
  EXPECT_EQ(Shown(File("a slots=2\n\nb slots=1\na:2\n")),
            "hosts:4:1: host a is listed twice, first in line 1");
  EXPECT_EQ(Shown(File("n[1-3]:1\nn[3-4]:1\n")),
            "hosts:2:1: host n3 is listed twice, first in line 1");
  EXPECT_EQ(Shown(File("n[1-3,2]:1\n")), "hosts:1:1: host n2 is listed twice, in this line");
  EXPECT_EQ(Shown(File("[::1]:1\n[0:0::1]:1\n")),
            "hosts:2:1: host 0--1 is listed twice, first in line 1");
  EXPECT_EQ(Shown(File("alice@a:1\nbob@a:1\n")),
            "hosts:2:1: host a is listed twice, first in line 1");
}

TEST(HostfileTest, NumberOfHostsHasALimit) {
  EXPECT_EQ(File("a[1-60000]:0\nb[1-40000]:0\n")->size(), 100'000U);
  EXPECT_EQ(Shown(File("a[1-60000]:0\nb[1-40000]:0\nc:1\n")), "hosts:3:1: over 100000 hosts");
}

TEST(HostfileTest, AFileWithoutHostsIsRefused) {
  for (const char* text : {"", "\n\n", "# nobody\n", "\xEF\xBB\xBF"}) {
    EXPECT_EQ(Shown(File(text)), "hosts: no host in this file") << text;
  }
}

TEST(HostfileTest, NulBytesAndEndlessWordsStayShortInMessages) {
  EXPECT_EQ(Shown(File(std::string_view("a\0b slots=2\n", 12))),
            "hosts:1:1: 'a\\x00b' is not a host name");
  EXPECT_LT(Shown(File(std::string(1'000'000, 'a') + " slots=2")).size(), 120U);
}

TEST(HostfileTest, HostNamesHaveTheLimitOfDns) {
  EXPECT_TRUE(File(std::string(253, 'a') + " slots=2").ok());
  EXPECT_FALSE(File(std::string(254, 'a') + " slots=2").ok());
}

}  // namespace
}  // namespace hvdray
