// SPDX-License-Identifier: Apache-2.0
// Hosts as people write them: host files, -H, ranges, discovery scripts. Not here: hosts of batch
// systems (allocation_test.cc), how hosts reach a spec (tests/unit/spec), names that do not
// resolve.
#include "launcher/job/hostfile.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <string>
#include <tuple>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/hosts.txt");

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
  EXPECT_EQ(Shown(File("a cpu=4\nb count=2\n")), "a=4 b=2 ");
}

TEST(HostfileTest, AnotherWordForSlotsIsNotPassedOver) {
  for (const std::string key : {"SLOTS", "Slots", "np", "ncpus", "gpus"}) {
    const Status status = File("a " + key + "=4\n").status();
    EXPECT_EQ(status.message(), "hosts:1:3: unknown key '" + key + "'");
    EXPECT_EQ(status.hint(), "did you mean slots=?");
  }
}

TEST(HostfileTest, AHostWithoutSlotsHasOneOrThoseOfTheOption) {
  EXPECT_EQ(Shown(File("node1\nnode2 # comment\nn[3-4]\nu@node5\nnode6 slots=3\n")),
            "node1=1 node2=1 n3=1 n4=1 node5=1 node6=3 ");
  EXPECT_EQ(Shown(File("a max_slots=4\nb max-slots=0\nssh://c:22\n")), "a=1 b=0 c=1 ");
  const auto with_four = [](std::string_view text) {
    return Shown(ParseHostfile(text, "hosts", 4));
  };
  EXPECT_EQ(with_four("a\nb slots=2\nc max_slots=2\nd max-slots=8\ne:1\n"), "a=4 b=2 c=2 d=4 e=1 ");
}

TEST(HostfileTest, ANameAloneMayHaveALineForEachSlot) {
  EXPECT_EQ(Shown(File("a\na\nb\na\n")), "a=3 b=1 ");
  EXPECT_EQ(Shown(ParseHostfile("a\na\n", "hosts", 4)), "a=8 ");
  EXPECT_EQ(Shown(File("a\na slots=2\n")).find("hosts:2:1"), 0U);
  EXPECT_EQ(Shown(File("a slots=2\na\n")).find("hosts:2:1"), 0U);
  EXPECT_EQ(Shown(File("n[1,1]\n")).find("hosts:1:1"), 0U);
  EXPECT_EQ(Shown(ParseHostfile("a\na\n", "hosts", kMaxSlots)).find("hosts:2:1"), 0U);
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
      {"a slots\n", "hosts:1:3"},
      {"a slot=4\n", "hosts:1:3"},
      {"a slots=4 prot=22\n", "hosts:1:11"},
      {"a slots=4 maxslots=8\n", "hosts:1:11"},
      {"a slots=\n", "hosts:1:3"},
      {"a slots==2\n", "hosts:1:3"},
      {"a =2\n", "hosts:1:3"},
      {"a 2\n", "hosts:1:3"},
      {"a b slots=2\n", "hosts:1:3"},
      {"a slots=two\n", "hosts:1:9"},
      {"a slots=-1\n", "hosts:1:9"},
      {"a slots=2,\n", "hosts:1:9"},
      {"a slots=65537\n", "hosts:1:9"},
      {"a:\n", "hosts:1:3"},
      {"a:x\n", "hosts:1:3"},
      {"a:2 slots=2\n", "hosts:1:5"},
      {"a slots=2 slots=2\n", "hosts:1:11"},
      {"\n\n!!\n", "hosts:3:1"},
      {"  a/b slots=2\n", "hosts:1:3"},
      {"-oProxyCommand=x slots=2\n", "hosts:1:1"},
      {"[::1]x slots=2\n", "hosts:1:1"},
      {"u@[::x]:2\n", "hosts:1:3"},
      {"[::1 slots=2\n", "hosts:1:1"},
      {"::1 slots=2\n", "hosts:1:1"},
      {"a:2:3\n", "hosts:1:1"},
      {" ssh://a:2:3:4\n", "hosts:1:2"},
      {" a b=1 slots=1 max_slots=x\n", "hosts:1:26"},
      {"a slots=4 max_slots=2\n", "hosts:1:21"},
      {"a slots=4 max-slots=99999\n", "hosts:1:21"},
      {"a slots=1 max_slots=2 max-slots=2\n", "hosts:1:23"},
      {"a slots=1 port=0\n", "hosts:1:16"},
      {"a slots=1 port=65536\n", "hosts:1:16"},
      {"a slots=1 port=-1\n", "hosts:1:16"},
      {"a slots=1 port=22x\n", "hosts:1:16"},
      {" ssh://a:70000 slots=1\n", "hosts:1:10"},
      {"ssh://a: slots=1\n", "hosts:1:9"},
      {"ssh://a:22 slots=1 port=22\n", "hosts:1:20"},
      {"u@a slots=1 user=v\n", "hosts:1:13"},
      {"-l@a slots=1\n", "hosts:1:1"},
      {"@a slots=1\n", "hosts:1:1"},
      {"u@v@a slots=1\n", "hosts:1:1"},
      {"a slots=1 user=$(x)\n", "hosts:1:16"},
      {"u@ slots=1\n", "hosts:1:3"},
      {"\n\n  n[3-1] slots=1\n", "hosts:3:5"},
      {"u@n[1,x] slots=1\n", "hosts:1:7"},
      {"n[1-2 slots=1\n", "hosts:1:2"},
      {"n1] slots=1\n", "hosts:1:3"},
      {"n[1-100001] slots=1\n", "hosts:1:1"},
      {"slots=2\n", "hosts:1:6"},
      {"\x7f"
       "ELF\x02\x01\n",
       "hosts:1:1"},
      {"a slots=2\rb slots=2\n", "hosts:1:13"},
  };
  for (const auto& [text, place] : table) {
    ExpectFault(text, File(text).status(), ErrorCode::kSpecInvalid, place);
  }
}

TEST(HostfileTest, RefusesAHostThatIsListedTwiceNamingBothLines) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"a slots=2\n\nb slots=1\na:2\n", "hosts:4:1", "line 1"},
      {"n[1-3]:1\nn[3-4]:1\n", "hosts:2:1", "line 1"},
      {"n[1-3,2]:1\n", "hosts:1:1", "this line"},
      {"[::1]:1\n[0:0::1]:1\n", "hosts:2:1", "line 1"},
      {"alice@a:1\nbob@a:1\n", "hosts:2:1", "line 1"},
      {"Node1:1\nnode1.:1\n", "hosts:2:1", "line 1 as Node1"}};

  for (const auto& [text, place, first] : table) {
    const Status status = File(text).status();
    ExpectFault(text, status, ErrorCode::kSpecInvalid, place);
    EXPECT_TRUE(status.message().ends_with(first)) << text;
  }
}

TEST(HostfileTest, NumberOfHostsHasALimit) {
  EXPECT_EQ(File("a[1-60000]:0\nb[1-40000]:0\n")->size(), 100'000U);
  const char* const over = "a[1-60000]:0\nb[1-40000]:0\nc:1\n";
  ExpectFault(over, File(over).status(), ErrorCode::kSpecInvalid, "hosts:3:1");
}

TEST(HostfileTest, AFileWithoutHostsIsRefused) {
  for (const char* text : {"", "\n\n", "# nobody\n", "\xEF\xBB\xBF"}) {
    ExpectFault(text, File(text).status(), ErrorCode::kSpecInvalid, "hosts");
  }
}

TEST(HostfileTest, NulBytesAndEndlessWordsStayShortInMessages) {
  const std::string_view nul("a\0b slots=2\n", 12);
  ExpectFault(nul, File(nul).status(), ErrorCode::kSpecInvalid, "hosts:1:1");
  EXPECT_LT(Shown(File(std::string(1'000'000, 'a') + " slots=2")).size(), 120U);
}

TEST(HostfileTest, HostNamesHaveTheLimitOfDns) {
  EXPECT_TRUE(File(std::string(253, 'a') + " slots=2").ok());
  EXPECT_FALSE(File(std::string(254, 'a') + " slots=2").ok());
}

void ExpectListFault(std::string_view list, std::string_view item) {
  ExpectFault(list, ParseHostList(list).status(), ErrorCode::kSpecInvalid, item);
}

/// Scripts may look for them.
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
  const std::pair<std::string_view, const char*> items[] = {
      {"a:2,b", "item 2 is 'b', without its number of workers: b:4"},
      {"a:2,b:2:3", "item 2 is 'b:2:3'"},
      {std::string_view("a:2\0b", 5), "item 1 is 'a:2\\x00b'"}};
  for (const auto& [list, item] : items) {
    const Status status = ParseHostList(list).status();
    ExpectFault(list, status, ErrorCode::kSpecInvalid);
    EXPECT_TRUE(status.hint().starts_with(item)) << status.hint();
  }
}

TEST(HostListTest, SaysWhatIsWrongWithAnExtension) {
  const std::pair<const char*, const char*> table[] = {
      {"a:1,n[3-1]:1", "item 2 ('n[3-1]:1')"},
      {"n[1-2:1", "item 1 ('n[1-2:1')"},
      {"n[1-2,b:1", "item 1 ('n[1-2,b:1')"},
      {"n[1-100001]:1", "item 1 ('n[1-100001]:1')"},
      {"a:1,ssh://b:0:1", "item 2 ('ssh://b:0:1')"},
      {"ssh://b:65536:1", "item 1 ('ssh://b:65536:1')"},
      {"ssh://b::1", "item 1 ('ssh://b::1')"},
      {"@b:1", "item 1 ('@b:1')"},
      {"-u@b:1", "item 1 ('-u@b:1')"},
      {"u v@b:1", "item 1 ('u v@b:1')"},
      {"[::g]:1", "item 1 ('[::g]:1')"},
      {"[::1]2:1", "item 1 ('[::1]2:1')"},
  };
  for (const auto& [list, item] : table) ExpectListFault(list, item);
}

TEST(HostListTest, RefusesAHostThatIsListedTwiceNamingBoth) {
  const std::tuple<const char*, const char*, const char*> table[] = {
      {"a:2,b:2,a:3", "host a", "items 1 and 3"},
      {"n[1-3]:2,n[3-9]:2", "host n3", "items 1 and 2"},
      {"a:1,n[1-3,2]:2", "host n2", "in item 2"},
      {"ssh://a:22:1,ssh://a:23:1", "host a", "items 1 and 2"},
      {"[::1]:1,[0::1]:1", "host 0--1", "items 1 and 2"},
      {"h1:2,H1:3", "host H1", "items 1 and 2, first as h1"},
      {"h1:2,h1.:3", "host h1.", "items 1 and 2, first as h1"}};
  for (const auto& [list, host, items] : table) {
    const Status status = ParseHostList(list).status();
    ExpectFault(list, status, ErrorCode::kSpecInvalid, host);
    EXPECT_TRUE(status.message().ends_with(items)) << list;
  }
  const std::string hint = ParseHostList("a:2,b:2,a:3").status().hint();
  EXPECT_TRUE(hint.ends_with("a:5")) << hint;
}

TEST(HostListTest, SlotsHaveALimit) {
  EXPECT_EQ(Shown(ParseHostList("a:65536")), "a=65536 ");
  ExpectListFault("a:65537", "item 1 ('a:65537')");
  ExpectListFault("a:99999999999999999999", "item 1 ('a:99999999999999999999')");
}

TEST(HostListTest, NumberOfHostsHasALimit) {
  std::string list;
  for (int i = 0; i < 100'000; ++i) list += fmt::format("{}h{}:1", i == 0 ? "" : ",", i);
  EXPECT_TRUE(ParseHostList(list).ok());
  for (const char* item : {"i:1", "[::1]:1"}) {
    const Status status = ParseHostList(fmt::format("{},{}", list, item)).status();
    ExpectFault(fmt::format("100000 hosts,{}", item), status, ErrorCode::kSpecInvalid,
                fmt::format("item 100001 ('{}')", item));
  }
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

/// The names with a blank between; for a fault its offset, and its words go into the catalogue.
std::string Expand(std::string_view pattern, size_t room = kMaxHosts) {
  std::vector<std::string> names;
  if (const auto fault = ExpandHostRange(pattern, room, &names)) {
    EXPECT_TRUE(names.empty());
    EXPECT_FALSE(fault->message.empty());
    FaultCatalogue::Add(pattern, fmt::format("at {}: {}", fault->offset, fault->message));
    return fmt::format("at {}", fault->offset);
  }
  return fmt::format("{}", fmt::join(names, " "));
}

TEST(HostRangeTest, LeavesANameAlone) {
  for (const char* name : {"a", "node1.example.org", "10.0.0.1", "7", "_a-b"}) {
    EXPECT_EQ(Expand(name), name);
  }
}

TEST(HostRangeTest, KeepsThePaddingOfTheFirstNumber) {
  EXPECT_EQ(Expand("n[1-3]"), "n1 n2 n3");
  EXPECT_EQ(Expand("n[8-11]"), "n8 n9 n10 n11");
  EXPECT_EQ(Expand("n[08-11]"), "n08 n09 n10 n11");
  EXPECT_EQ(Expand("n[98-101]"), "n98 n99 n100 n101");
  EXPECT_EQ(Expand("n[099-101]"), "n099 n100 n101");
  EXPECT_EQ(Expand("n[01-1]"), "n01");
  EXPECT_EQ(Expand("n[000-002]"), "n000 n001 n002");
  EXPECT_EQ(Expand("n[007]"), "n007");
}

TEST(HostRangeTest, TakesListsSeveralBracketsAndTextBehind) {
  EXPECT_EQ(Expand("n[1,3,5-8]"), "n1 n3 n5 n6 n7 n8");
  EXPECT_EQ(Expand("n[2,1,1]"), "n2 n1 n1") << "order and repetition are the caller's business";
  EXPECT_EQ(Expand("r[1-2]n[01-02].x"), "r1n01.x r1n02.x r2n01.x r2n02.x");
  EXPECT_EQ(Expand("[1-2]"), "1 2");
  EXPECT_EQ(Expand("[1-2][3,4]"), "13 14 23 24");
  EXPECT_EQ(Expand("10.0.[0-1].[1-2]"), "10.0.0.1 10.0.0.2 10.0.1.1 10.0.1.2");
}

TEST(HostRangeTest, RefusesGarbageWithItsPlace) {
  const std::pair<const char*, const char*> table[] = {
      {"", "at 0"},
      {"a b", "at 0"},
      {"-a[1-2]", "at 0"},
      {"a[1-2]/b", "at 0"},
      {"a[", "at 1"},
      {"a[1]b[2", "at 5"},
      {"a]", "at 1"},
      {"a[1]]", "at 4"},
      {"a[]", "at 2"},
      {"a[1,]", "at 4"},
      {"a[,1]", "at 2"},
      {"a[1--2]", "at 2"},
      {"a[-2]", "at 2"},
      {"a[1-]", "at 2"},
      {"a[1-2-3]", "at 2"},
      {"a[b-d]", "at 2"},
      {"a[ 1]", "at 2"},
      {"a[[1]]", "at 2"},
      {"a[1,3-2]", "at 4"},
      {"a[10-09]", "at 2"},
      {"a[1-010]", "at 2"},
      {"a[01-003]", "at 2"},
      {"a[1-9999999999999999999]", "at 2"},
  };
  for (const auto& [pattern, wanted] : table) EXPECT_EQ(Expand(pattern), wanted) << pattern;
}

TEST(HostRangeTest, CountsBeforeItExpands) {
  EXPECT_EQ(Expand("n[1-3]", 3), "n1 n2 n3");
  EXPECT_EQ(Expand("n[1-4]", 3), "at 0");
  for (const char* pattern : {"n[0-100000]", "n[0-999999999999999999]", "n[1-1000][1-101]",
                              "[0-999999999999999999][0-999999999999999999][0-999999999999999999]",
                              "a[1-60000,1-60000]"}) {
    EXPECT_EQ(Expand(pattern), "at 0") << pattern;
  }
  std::vector<std::string> names;
  EXPECT_FALSE(ExpandHostRange("n[1-1000][1-100]", kMaxHosts, &names));
  EXPECT_EQ(names.size(), kMaxHosts);
}

TEST(HostRangeTest, NamesHaveTheLimitOfDns) {
  EXPECT_EQ(Expand(std::string(252, 'a') + "[1-2]").size(), 2 * 253U + 1);
  EXPECT_EQ(Expand(std::string(253, 'a') + "[1-2]"), "at 0");
  EXPECT_EQ(Expand(std::string(252, 'a') + "[9-10]"), "at 0");
  std::string ones;
  for (int i = 0; i < 100'000; ++i) ones += "[1]";
  EXPECT_EQ(Expand(ones), "at 0");
}

TEST(HostRangeTest, AddsToWhatIsThere) {
  std::vector<std::string> names = {"x"};
  EXPECT_FALSE(ExpandHostRange("n[1-2]", 2, &names));
  EXPECT_TRUE(ExpandHostRange("n[2-1]", 2, &names));
  EXPECT_EQ(names, (std::vector<std::string>{"x", "n1", "n2"}));
}

TEST(SplitHostItemsTest, CutsAtCommasOutsideOfBrackets) {
  using Items = std::vector<std::string_view>;
  EXPECT_EQ(SplitHostItems(""), (Items{""}));
  EXPECT_EQ(SplitHostItems("a,b"), (Items{"a", "b"}));
  EXPECT_EQ(SplitHostItems("a[1,2]:3,b,"), (Items{"a[1,2]:3", "b", ""}));
  EXPECT_EQ(SplitHostItems("a[1,b"), (Items{"a[1,b"}));
}

TEST(HostRangePropertyTest, AFoldedListExpandsToTheSameHosts) {
  const std::vector<std::string> prefixes = {"n", "gpu-", "r1c", "", "10.0.0."};
  const std::vector<std::string> suffixes = {"", ".local", "a", "-ib"};
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::string> hosts(1 + random() % 40);
    for (std::string& host : hosts) {
      host = fmt::format("{}{:0{}}{}", prefixes[random() % prefixes.size()], random() % 120,
                         random() % 4 + 1, suffixes[random() % suffixes.size()]);
    }
    const std::string text = CompressHostList(hosts, 1000);
    std::vector<std::string> names;
    for (const std::string_view item : SplitHostItems(text)) {
      const auto fault = ExpandHostRange(item, kMaxHosts, &names);
      ASSERT_FALSE(fault) << "seed " << seed << ": " << text << ": " << fault->message;
    }
    const std::set<std::string> wanted(hosts.begin(), hosts.end());
    ASSERT_EQ(std::set<std::string>(names.begin(), names.end()), wanted)
        << "seed " << seed << ": " << text;
    ASSERT_EQ(names.size(), wanted.size()) << "seed " << seed << ": " << text;
  }
}

TEST(HostRangePropertyTest, AnExpandedRangeFoldsBackIntoItself) {
  for (uint64_t seed = 1; seed <= 500; ++seed) {
    std::mt19937_64 random(seed);
    const uint64_t first = random() % 2000;
    const uint64_t last = first + 1 + random() % 2000;
    const size_t width = 1 + random() % 5;
    const std::string pattern = fmt::format("n[{:0{}}-{:0{}}]", first, width, last, width);
    std::vector<std::string> names;
    ASSERT_FALSE(ExpandHostRange(pattern, kMaxHosts, &names)) << "seed " << seed;
    ASSERT_EQ(names.size(), last - first + 1) << "seed " << seed << ": " << pattern;
    // A range whose numbers outgrow their padding is written in two.
    const bool is_padded = std::to_string(first).size() < width;
    if (is_padded && std::to_string(last).size() > width) continue;
    ASSERT_EQ(CompressHostList(names), pattern) << "seed " << seed;
  }
}

Hosts Discovered(std::string_view text, std::optional<int> default_slots = 4) {
  std::string warning = "of an earlier list";
  const auto hosts = ParseDiscoveredHosts(text, default_slots, &warning);
  EXPECT_TRUE(hosts.ok()) << hosts.status().ToString();
  EXPECT_EQ(warning, "");
  return hosts.ok() ? *hosts : Hosts();
}

/// Returns the hint.
std::string ExpectRefused(std::string_view text, std::string_view line,
                          std::optional<int> default_slots = 4) {
  std::string warning;
  const Status status = ParseDiscoveredHosts(text, default_slots, &warning).status();
  ExpectFault(text, status, ErrorCode::kSpecInvalid, line);
  EXPECT_FALSE(status.hint().empty()) << text;
  return status.hint();
}

TEST(DiscoveredHostsTest, NamesWithOrWithoutSlots) {
  EXPECT_EQ(Discovered(""), Hosts());
  EXPECT_EQ(Discovered("host-1"), (Hosts{{"host-1", 4}}));
  EXPECT_EQ(Discovered("host-1:2\n\nhost-4:3"), (Hosts{{"host-1", 2}, {"host-4", 3}}));
}

TEST(DiscoveredHostsTest, OrderIsKeptAndBlanksDoNotCount) {
  EXPECT_EQ(Discovered("\n  z:1 \r\n\ta:0\n\n \n"), (Hosts{{"z", 1}, {"a", 0}}));
}

TEST(DiscoveredHostsTest, HostsAreWrittenAsInTheHostsOption) {
  EXPECT_EQ(Discovered("n[1-2]:3\nuser@a\n[::1]:2\nssh://b:2222:5\nssh://c:22", 7),
            (Hosts{{"n1", 3},
                   {"n2", 3},
                   {"a", 7, {.user = "user"}},
                   {"0--1", 2, {.name = "::1"}},
                   {"b", 5, {.port = 2222}},
                   {"c", 7, {.port = 22}}}));
}

TEST(DiscoveredHostsTest, GarbageIsRefusedWithItsLine) {
  ExpectRefused("a:1\n\nb:2:3", "line 3");
  for (const char* line :
       {"a:two", "a:-1", "a:", "a:1.5", "a:65537", "a:99999999999", "a b", "a,b", "-oX:1",
        "Traceback (most recent call last):", "<html>", "# host", "\x01\xff", "n[3-1]:1",
        "n[1-999999]:1", ":4", "[::1:2", "ssh://a:0:1"}) {
    ExpectRefused(line, "line 1");
  }
}

TEST(DiscoveredHostsTest, HostWithoutSlotsNeedsTheOption) {
  const std::string hint = ExpectRefused("a:1\nb", "line 2", std::nullopt);
  EXPECT_NE(hint.find("--slots-per-host"), std::string::npos) << hint;
  EXPECT_EQ(Discovered("a:1", std::nullopt), (Hosts{{"a", 1}}));
}

TEST(DiscoveredHostsTest, HostThatComesAgainKeepsItsPlaceAndItsFirstLineCounts) {
  EXPECT_EQ(Discovered("a:2\nb:1\na:2"), (Hosts{{"a", 2}, {"b", 1}}))
      << "the same line twice is harmless";
  std::string warning;
  const auto hosts = ParseDiscoveredHosts("a:2\nb:1\nu@a:2\na:3", 4, &warning);
  ASSERT_TRUE(hosts.ok());
  EXPECT_EQ(*hosts, (Hosts{{"a", 2}, {"b", 1}}));
  EXPECT_EQ(warning,
            "the discovery script prints host a twice, 'a:2' on line 1 and 'u@a:2' on line 3: "
            "using the first");
}

TEST(DiscoveredHostsTest, NamesThatDifferByCaseOrTheLastDotAreOneHost) {
  EXPECT_EQ(Discovered("H1:2\nh1:2\nh1.:2"), (Hosts{{"H1", 2}}));
  std::string warning;
  ASSERT_TRUE(ParseDiscoveredHosts("H1:2\nh1:3", 4, &warning).ok());
  EXPECT_NE(warning.find("'H1:2' on line 1 and 'h1:3' on line 2"), std::string::npos) << warning;
}

TEST(DiscoveredHostsTest, AClientIsNamedAsTheOneThatListsThem) {
  std::string warning;
  ASSERT_TRUE(ParseDiscoveredHosts("a:2\na:3", 4, &warning, HostFinder::kClient).ok());
  EXPECT_EQ(warning,
            "the client lists host a twice, 'a:2' on line 1 and 'a:3' on line 2: using the first");
  const Status status =
      ParseDiscoveredHosts("a", std::nullopt, &warning, HostFinder::kClient).status();
  EXPECT_EQ(status.hint(), "make the client list host:slots, or give --slots-per-host");
}

TEST(DiscoveredHostsTest, NoMoreThanAHundredThousandHosts) {
  std::string text;
  for (int i = 0; i < 100; ++i) text += "x" + std::to_string(i) + "-[1-1000]:1\n";
  EXPECT_EQ(Discovered(text).size(), kMaxHosts);
  std::string warning;
  ExpectFault("100000 hosts and one",
              ParseDiscoveredHosts(text + "one-more:1", 4, &warning).status(),
              ErrorCode::kSpecInvalid, "line 101");
}

}  // namespace
}  // namespace hvdray
