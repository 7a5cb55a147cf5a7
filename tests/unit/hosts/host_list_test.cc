// SPDX-License-Identifier: Apache-2.0
// Short lists of hosts: what is folded, what is not, and that nothing is lost on the way.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

std::string Compress(std::vector<std::string> hosts, size_t max_groups = 16) {
  return CompressHostList(hosts, max_groups);
}

std::string Numbered(const std::string& prefix, int number, int width) {
  std::string digits = std::to_string(number);
  if (static_cast<int>(digits.size()) < width) digits.insert(0, width - digits.size(), '0');
  return prefix + digits;
}

TEST(CompressHostListTest, LeavesSingleNamesAlone) {
  EXPECT_EQ(Compress({}), "");
  EXPECT_EQ(Compress({"a"}), "a");
  EXPECT_EQ(Compress({"node007"}), "node007");
  EXPECT_EQ(Compress({"gpu", "login.example.org"}), "gpu,login.example.org");
}

TEST(CompressHostListTest, FoldsRuns) {
  std::vector<std::string> hosts;
  for (int i = 3; i <= 202; ++i) hosts.push_back(Numbered("node", i, 3));
  EXPECT_EQ(Compress(hosts), "node[003-202]");
}

TEST(CompressHostListTest, FoldsNumbersOfGrowingLength) {
  EXPECT_EQ(Compress({"n8", "n9", "n10", "n11"}), "n[8-11]");
  EXPECT_EQ(Compress({"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(Compress({"n098", "n099", "n100"}), "n[098-100]");
}

TEST(CompressHostListTest, KeepsDifferentPaddingApart) {
  EXPECT_EQ(Compress({"n1", "n01", "n001"}), "n1,n01,n001");
  EXPECT_EQ(Compress({"n1", "n2", "n01", "n02"}), "n[1-2],n[01-02]");
}

TEST(CompressHostListTest, WritesGapsAndSorts) {
  EXPECT_EQ(Compress({"n5", "n1", "n2", "n9"}), "n[1-2,5,9]");
}

TEST(CompressHostListTest, CountsDuplicatesOnce) {
  EXPECT_EQ(Compress({"n1", "n1", "a", "a"}), "n1,a");
}

TEST(CompressHostListTest, FoldsTheLastNumberOfTheFirstLabel) {
  EXPECT_EQ(Compress({"rack2-gpu1.cluster1.local", "rack2-gpu2.cluster1.local"}),
            "rack2-gpu[1-2].cluster1.local");
  EXPECT_EQ(Compress({"a.net1", "a.net2"}), "a.net1,a.net2");
  EXPECT_EQ(Compress({"gpu1a", "gpu2a"}), "gpu[1-2]a");
}

TEST(CompressHostListTest, FoldsTheLastNumberOfAnAddress) {
  EXPECT_EQ(Compress({"10.0.0.5", "10.0.0.6", "10.0.1.5"}), "10.0.0.[5-6],10.0.1.5");
}

TEST(CompressHostListTest, DoesNotMixANumberWithNone) {
  EXPECT_EQ(Compress({"node", "node1", "node2"}), "node,node[1-2]");
}

TEST(CompressHostListTest, TakesNamesOfDigitsAndAbsurdNumbers) {
  EXPECT_EQ(Compress({"1", "2"}), "[1-2]");
  const std::string absurd(400, '9');
  EXPECT_EQ(Compress({"n" + absurd, "n1"}), "n" + absurd + ",n1");
  EXPECT_EQ(Compress({"", ".", "-"}), ",.,-");
}

TEST(CompressHostListTest, SaysHowManyItLeavesOut) {
  EXPECT_EQ(Compress({"a", "b", "c", "d1", "d2"}, 2), "a,b and 3 more");
  EXPECT_EQ(Compress({"n1", "n3", "n5", "n6"}, 2), "n[1,3] and 2 more");
}

// Reads the short form back; only for names without commas or brackets.
std::set<std::string> Expand(const std::string& text) {
  std::set<std::string> hosts;
  std::vector<std::string> groups(1);
  int depth = 0;
  for (const char c : text) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      groups.emplace_back();
    } else {
      groups.back() += c;
    }
  }
  for (const std::string& group : groups) {
    const size_t open = group.find('[');
    if (open == std::string::npos) {
      hosts.insert(group);
      continue;
    }
    const size_t close = group.find(']');
    std::string ranges = group.substr(open + 1, close - open - 1) + ",";
    for (size_t comma; (comma = ranges.find(',')) != std::string::npos;
         ranges.erase(0, comma + 1)) {
      const std::string range = ranges.substr(0, comma);
      const size_t dash = range.find('-');
      const std::string first = range.substr(0, dash);
      const std::string last = dash == std::string::npos ? first : range.substr(dash + 1);
      const int width = first[0] == '0' ? static_cast<int>(first.size()) : 0;
      for (int i = std::stoi(first); i <= std::stoi(last); ++i) {
        hosts.insert(Numbered(group.substr(0, open), i, width) + group.substr(close + 1));
      }
    }
  }
  return hosts;
}

TEST(CompressHostListPropertyTest, LosesNoHostAndInventsNone) {
  const std::vector<std::string> prefixes = {"n", "gpu-", "r1c", ""};
  const std::vector<std::string> suffixes = {"", ".local", "a"};
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::string> hosts(1 + random() % 30);
    for (std::string& host : hosts) {
      host = Numbered(prefixes[random() % 4], static_cast<int>(random() % 120),
                      static_cast<int>(random() % 4)) +
             suffixes[random() % 3];
    }
    const std::string text = CompressHostList(hosts, 1000);
    ASSERT_EQ(Expand(text), std::set<std::string>(hosts.begin(), hosts.end()))
        << "seed " << seed << ": " << text;
  }
}

}  // namespace
}  // namespace hvdray
