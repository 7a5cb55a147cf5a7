// SPDX-License-Identifier: Apache-2.0
// node[01-32]: what it stands for, what is refused, and the way back from a folded list.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "launcher/driver/host_list.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

/// The names with a blank between, or "offset: what is wrong".
std::string Expand(std::string_view pattern, size_t room = kMaxHosts) {
  std::vector<std::string> names;
  if (const auto fault = ExpandHostRange(pattern, room, &names)) {
    EXPECT_TRUE(names.empty());
    return fmt::format("{}: {}", fault->offset, fault->message);
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
      {"", "0: '' is not a host name"},
      {"a b", "0: 'a b' is not a host name"},
      {"-a[1-2]", "0: '-a[1-2]' is not a host name"},
      {"a[1-2]/b", "0: 'a[1-2]/b' is not a host name"},
      {"a[", "1: this bracket is not closed"},
      {"a[1]b[2", "5: this bracket is not closed"},
      {"a]", "1: ']' without a '[' before it"},
      {"a[1]]", "4: ']' without a '[' before it"},
      {"a[]", "2: '' is not a number or a range of numbers"},
      {"a[1,]", "4: '' is not a number or a range of numbers"},
      {"a[,1]", "2: '' is not a number or a range of numbers"},
      {"a[1--2]", "2: '1--2' is not a number or a range of numbers"},
      {"a[-2]", "2: '-2' is not a number or a range of numbers"},
      {"a[1-]", "2: '1-' is not a number or a range of numbers"},
      {"a[1-2-3]", "2: '1-2-3' is not a number or a range of numbers"},
      {"a[b-d]", "2: 'b-d' is not a number or a range of numbers"},
      {"a[ 1]", "2: ' 1' is not a number or a range of numbers"},
      {"a[[1]]", "2: '[1' is not a number or a range of numbers"},
      {"a[1,3-2]", "4: range 3-2 is reversed"},
      {"a[10-09]", "2: range 10-09 is reversed"},
      {"a[1-010]", "2: the ends of range 1-010 are padded differently"},
      {"a[01-003]", "2: the ends of range 01-003 are padded differently"},
      {"a[1-9999999999999999999]",
       "2: '1-9999999999999999999' has a number of more than 18 digits"},
  };
  for (const auto& [pattern, wanted] : table) EXPECT_EQ(Expand(pattern), wanted) << pattern;
}

TEST(HostRangeTest, CountsBeforeItExpands) {
  EXPECT_EQ(Expand("n[1-3]", 3), "n1 n2 n3");
  EXPECT_EQ(Expand("n[1-4]", 3), "0: over 100000 hosts");
  for (const char* pattern : {"n[0-100000]", "n[0-999999999999999999]", "n[1-1000][1-101]",
                              "[0-999999999999999999][0-999999999999999999][0-999999999999999999]",
                              "a[1-60000,1-60000]"}) {
    EXPECT_EQ(Expand(pattern), "0: over 100000 hosts") << pattern;
  }
  std::vector<std::string> names;
  EXPECT_FALSE(ExpandHostRange("n[1-1000][1-100]", kMaxHosts, &names));
  EXPECT_EQ(names.size(), kMaxHosts);
}

TEST(HostRangeTest, NamesHaveTheLimitOfDns) {
  EXPECT_EQ(Expand(std::string(252, 'a') + "[1-2]").size(), 2 * 253U + 1);
  EXPECT_NE(Expand(std::string(253, 'a') + "[1-2]").find("is not a host name"), std::string::npos);
  EXPECT_NE(Expand(std::string(252, 'a') + "[9-10]").find("is not a host name"), std::string::npos);
  std::string ones;
  for (int i = 0; i < 100'000; ++i) ones += "[1]";
  EXPECT_NE(Expand(ones).find("is not a host name"), std::string::npos);
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

}  // namespace
}  // namespace hvdray
