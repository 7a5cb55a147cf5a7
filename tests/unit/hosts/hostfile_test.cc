#include "launcher/hosts/hostfile.h"

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

constexpr const char* kHorovodWords =
    "Invalid host input, please make sure it has format as : worker-0:2,worker-1:2.";

TEST(HostListTest, KeepsTheOrder) {
  EXPECT_EQ(Shown(ParseHostList("b:2,a:1,c:0")), "b=2 a=1 c=0 ");
  EXPECT_EQ(Shown(ParseHostList(" worker-0:2 ,\tnode_1.example.com:16\n")),
            "worker-0=2 node_1.example.com=16 ");
  EXPECT_EQ(Shown(ParseHostList("10.0.0.1:4")), "10.0.0.1=4 ");
}

TEST(HostListTest, RefusesInHorovodsWordsAndNamesTheItem) {
  for (const char* list :
       {"",         ",",     "a",        "a:",        ":2",      "a:2,",       ",a:2",
        "a:2,,b:2", "a:-1",  "a:+1",     "a:x",       "a:2:3",   "a b:2",      "::1:2",
        "[::1]:2",  "a:1.5", "user@a:2", "-oProxy:2", "a:2;b:2", "\xC3\xBC:2", "a: 2"}) {
    EXPECT_EQ(Shown(ParseHostList(list)), kHorovodWords) << list;
  }
  EXPECT_EQ(ParseHostList("a:2,b").status().hint(), "item 2 is 'b'");
  EXPECT_EQ(ParseHostList(std::string_view("a:2\0b", 5)).status().hint(), "item 1 is 'a:2\\x00b'");
}

TEST(HostListTest, RefusesAHostThatIsListedTwiceNamingBoth) {
  const Result<Hosts> result = ParseHostList("a:2,b:2,a:3");
  EXPECT_EQ(Shown(result), "host a is listed twice: items 1 and 3");
  EXPECT_EQ(result.status().hint(), "add the slots up: a:5");
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
  for (int i = 0; i < 65537; ++i) list += fmt::format("{}h{}:1", i == 0 ? "" : ",", i);
  EXPECT_EQ(Shown(ParseHostList(list)), "over 65536 hosts");
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
}

TEST(HostfileTest, RefusesGarbageWithItsPlace) {
  const std::pair<const char*, const char*> table[] = {
      {"a slots=2\nb\n", "hosts:2:2: host b has no slots"},
      {"a max_slots=2\n", "hosts:1:2: host a has no slots"},
      {"a slots\n", "hosts:1:3: 'slots' is not key=value"},
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
      {"[::1] slots=2\n", "hosts:1:1: '[::1]' is not a host name"},
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
