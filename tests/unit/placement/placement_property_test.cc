// SPDX-License-Identifier: Apache-2.0
// Random host lists: the invariants of an assignment, and a slow reference that is written as the
// definition reads instead of as the algorithm runs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "launcher/job/placement.h"

namespace hvdray {
namespace {

struct Case {
  std::vector<HostSlots> hosts;
  int min_np = 1;
  std::optional<int> max_np;
};

Case RandomCase(std::mt19937_64& random) {
  auto below = [&](int n) { return static_cast<int>(random() % n); };
  Case result;
  const int count = 1 + below(8);
  for (int i = 0; i < count; ++i) result.hosts.push_back({"h" + std::to_string(i), below(6)});
  result.min_np = below(12);
  if (below(2) == 0) result.max_np = result.min_np + below(10);
  return result;
}

// Definition: every (host, local rank) pair in host order, cut at the cap; then count.
std::vector<RankInfo> Reference(const Case& input) {
  std::vector<std::pair<int, int>> pairs;
  for (int h = 0; h < static_cast<int>(input.hosts.size()); ++h) {
    for (int l = 0; l < input.hosts[h].slots; ++l) pairs.emplace_back(h, l);
  }
  if (input.max_np && static_cast<int>(pairs.size()) > *input.max_np) pairs.resize(*input.max_np);
  std::vector<RankInfo> ranks;
  for (const auto& [host, local] : pairs) {
    auto count_if = [&](auto predicate) {
      return static_cast<int>(std::count_if(pairs.begin(), pairs.end(), predicate));
    };
    RankInfo info;
    info.host = input.hosts[host].host;
    info.host_index = host;
    info.rank = count_if([&](const auto& p) { return p < std::make_pair(host, local); });
    info.size = static_cast<int>(pairs.size());
    info.local_rank = local;
    info.local_size = count_if([&](const auto& p) { return p.first == host; });
    info.cross_rank = count_if([&](const auto& p) { return p.second == local && p.first < host; });
    info.cross_size = count_if([&](const auto& p) { return p.second == local; });
    ranks.push_back(info);
  }
  return ranks;
}

void ExpectInvariants(const std::vector<RankInfo>& ranks) {
  std::map<std::string, std::set<int>> locals;
  std::map<int, std::set<int>> crosses;
  int last_host = -1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const RankInfo& info = ranks[i];
    EXPECT_EQ(info.rank, static_cast<int>(i));
    EXPECT_EQ(info.size, static_cast<int>(ranks.size()));
    EXPECT_GE(info.host_index, last_host) << "ranks must be contiguous per host, in host order";
    last_host = info.host_index;
    EXPECT_TRUE(locals[info.host].insert(info.local_rank).second);
    EXPECT_TRUE(crosses[info.local_rank].insert(info.cross_rank).second);
  }
  for (const RankInfo& info : ranks) {
    EXPECT_EQ(info.local_size, static_cast<int>(locals[info.host].size()));
    EXPECT_EQ(*locals[info.host].rbegin(), info.local_size - 1) << "local ranks must be dense";
    EXPECT_EQ(info.cross_size, static_cast<int>(crosses[info.local_rank].size()));
    EXPECT_EQ(*crosses[info.local_rank].rbegin(), info.cross_size - 1);
  }
}

TEST(AssignRanksPropertyTest, AgreesWithTheDefinitionOnRandomHosts) {
  for (uint64_t seed = 1; seed <= 3000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    const Case input = RandomCase(random);
    const std::vector<RankInfo> expected = Reference(input);
    const Result<std::vector<RankInfo>> ranks =
        AssignRanks(input.hosts, input.min_np, input.max_np);
    if (static_cast<int>(expected.size()) < input.min_np) {
      ASSERT_FALSE(ranks.ok());
      EXPECT_EQ(ranks.status().code(), ErrorCode::kNotEnoughSlots);
      continue;
    }
    ASSERT_TRUE(ranks.ok()) << ranks.status().ToString();
    ASSERT_EQ(*ranks, expected);
    ExpectInvariants(*ranks);
    if (HasFailure()) return;
  }
}

TEST(AssignRanksPropertyTest, KeepsThePlacesOfEarlierRanksWhenTheCapGrows) {
  const std::vector<HostSlots> hosts = {{"a", 3}, {"b", 0}, {"c", 5}, {"d", 1}};
  for (int np = 1; np < 9; ++np) {
    const auto small = AssignRanks(hosts, np, np);
    const auto large = AssignRanks(hosts, np + 1, np + 1);
    ASSERT_TRUE(small.ok() && large.ok());
    for (int rank = 0; rank < np; ++rank) {
      EXPECT_EQ((*small)[rank].host, (*large)[rank].host);
      EXPECT_EQ((*small)[rank].local_rank, (*large)[rank].local_rank);
      EXPECT_EQ((*small)[rank].cross_rank, (*large)[rank].cross_rank);
    }
  }
}

}  // namespace
}  // namespace hvdray
