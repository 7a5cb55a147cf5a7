// SPDX-License-Identifier: Apache-2.0
// From hosts to ranks, and what the rendezvous and each worker are told of them. Horovod's own
// assignments are the expected values. Not here: which hosts (tests/unit/hosts), and the
// environment that a worker inherits (tests/unit/spec).
#include "launcher/job/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/fakes/fault_catalogue.h"
#include "wire/slot_environment.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/placement.txt");

std::string Show(const std::vector<RankInfo>& ranks) {
  std::string text;
  for (const RankInfo& info : ranks) {
    text += (text.empty() ? "" : "; ") + info.host + " " + ToRankAndSize(info);
  }
  return text;
}

std::string Assign(std::vector<HostSlots> hosts, int min_np, std::optional<int> max_np = {}) {
  const Result<std::vector<RankInfo>> ranks = AssignRanks(hosts, min_np, max_np);
  return ranks.ok() ? Show(*ranks) : ranks.status().ToString();
}

TEST(AssignRanksTest, FillsHostsInOrderWithoutACap) {
  EXPECT_EQ(Assign({{"a", 3}, {"b", 1}, {"c", 2}}, 6),
            "a 0,6,0,3,0,3; a 1,6,1,3,0,2; a 2,6,2,3,0,1; b 3,6,0,1,1,3; c 4,6,0,2,2,3; "
            "c 5,6,1,2,1,2");
}

TEST(AssignRanksTest, StopsAtTheCapInTheMiddleOfTheHosts) {
  EXPECT_EQ(Assign({{"a", 3}, {"b", 1}, {"c", 2}}, 2, 4),
            "a 0,4,0,3,0,2; a 1,4,1,3,0,1; a 2,4,2,3,0,1; b 3,4,0,1,1,2");
}

TEST(AssignRanksTest, LeavesLaterHostsEmptyWhenTheFirstReachesTheCap) {
  EXPECT_EQ(Assign({{"worker-0", 2}, {"worker-1", 2}}, 1, 2),
            "worker-0 0,2,0,2,0,1; worker-0 1,2,1,2,0,1");
}

TEST(AssignRanksTest, CountsCrossRanksOverHostsThatHaveTheLocalRank) {
  EXPECT_EQ(Assign({{"worker-0", 1}, {"worker-1", 2}}, 3),
            "worker-0 0,3,0,1,0,2; worker-1 1,3,0,2,1,2; worker-1 2,3,1,2,0,1");
}

TEST(AssignRanksTest, CutsAHostThatTheCapReachesInside) {
  EXPECT_EQ(Assign({{"localhost", 3}}, 2, 2), "localhost 0,2,0,2,0,1; localhost 1,2,1,2,0,1");
}

TEST(AssignRanksTest, GivesNoRankToAHostWithoutSlots) {
  const Result<std::vector<RankInfo>> ranks =
      AssignRanks(std::vector<HostSlots>{{"a", 0}, {"b", 1}}, 1, {});
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(Show(*ranks), "b 0,1,0,1,0,1");
  EXPECT_EQ((*ranks)[0].host_index, 1);
}

TEST(AssignRanksTest, RefusesMoreThanTheSlotsInHorovodsWords) {
  const Result<std::vector<RankInfo>> ranks = AssignRanks(std::vector<HostSlots>{{"a", 2}}, 3, {});
  EXPECT_EQ(ranks.status().code(), ErrorCode::kNotEnoughSlots);
  // Scripts may look for these words.
  EXPECT_EQ(ranks.status().message(),
            "Requested more processes (3) than there are available slots (2)");
  EXPECT_FALSE(ranks.status().hint().empty());
}

TEST(AssignRanksTest, RefusesAnyWorkerWithoutHosts) {
  EXPECT_EQ(AssignRanks({}, 1, {}).status().code(), ErrorCode::kNotEnoughSlots);
}

TEST(AssignRanksTest, RefusesAHostListedTwiceEvenWithoutSlots) {
  const Result<std::vector<RankInfo>> ranks =
      AssignRanks(std::vector<HostSlots>{{"a", 0}, {"b", 1}, {"a", 2}}, 1, {});
  ExpectFault("a:0,b:1,a:2", ranks.status(), ErrorCode::kSpecInvalid, "host a");
}

TEST(AssignRanksTest, RefusesNegativeSlots) {
  ExpectFault("a:-1", AssignRanks(std::vector<HostSlots>{{"a", -1}}, 1, {}).status(),
              ErrorCode::kSpecInvalid, "host a");
}

TEST(AssignRanksTest, RefusesAbsurdSlotsInsteadOfAllocatingThem) {
  const std::vector<HostSlots> hosts = {{"a", 2'000'000'000}, {"b", 2'000'000'000}};
  EXPECT_EQ(AssignRanks(hosts, 1, {}).status().code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(AssignRanks(hosts, 1, 2'000'000'000).status().code(), ErrorCode::kSpecInvalid);
  EXPECT_TRUE(AssignRanks(hosts, 1, 4).ok());
}

TEST(AssignRanksTest, TakesTheLargestJob) {
  const Result<std::vector<RankInfo>> ranks =
      AssignRanks(std::vector<HostSlots>{{"a", kMaxRanks}}, kMaxRanks, kMaxRanks);
  ASSERT_TRUE(ranks.ok());
  EXPECT_EQ(ToRankAndSize(ranks->back()), "65535,65536,65535,65536,0,1");
}

TEST(AssignRanksTest, TakesACapOfNothing) {
  EXPECT_EQ(Assign({{"a", 2}}, 0, 0), "");
  EXPECT_EQ(Assign({{"a", 2}}, 0, -5), "");
}

// Random host lists: the invariants of an assignment, and a slow reference that is written as the
// definition reads instead of as the algorithm runs.

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

/// Ordered, whatever the store looks values up with.
template <typename Map>
auto Sorted(const Map& values) {
  return std::map<std::string, typename Map::mapped_type>(values.begin(), values.end());
}

TEST(KvAssignmentOfTest, KnowsEveryScopeAndSlotOfUnevenHosts) {
  const auto ranks = AssignRanks(std::vector<HostSlots>{{"a", 3}, {"b", 1}, {"c", 2}}, 6, {});
  ASSERT_TRUE(ranks.ok());
  const KvAssignment assignment = ToKvAssignment(*ranks, 4);
  EXPECT_EQ(assignment.generation, 4u);
  EXPECT_EQ(Sorted(assignment.scope_sizes), (std::map<std::string, int>{{"global", 6},
                                                                        {"local_a", 3},
                                                                        {"local_b", 1},
                                                                        {"local_c", 2},
                                                                        {"cross_0", 3},
                                                                        {"cross_1", 2},
                                                                        {"cross_2", 1}}));
  EXPECT_EQ(Sorted(assignment.rank_and_size),
            (std::map<std::string, std::string>{{"a:0", "0,6,0,3,0,3"},
                                                {"a:1", "1,6,1,3,0,2"},
                                                {"a:2", "2,6,2,3,0,1"},
                                                {"b:0", "3,6,0,1,1,3"},
                                                {"c:0", "4,6,0,2,2,3"},
                                                {"c:1", "5,6,1,2,1,2"}}));
}

TEST(KvAssignmentOfTest, IsEmptyWithoutRanks) {
  const KvAssignment assignment = ToKvAssignment({}, 1);
  EXPECT_TRUE(assignment.scope_sizes.empty());
  EXPECT_TRUE(assignment.rank_and_size.empty());
}

std::vector<RankInfo> Ranks(std::vector<HostSlots> hosts) {
  return AssignRanks(hosts, 1, {}).value();
}

std::map<std::string, std::string> ToMap(const std::vector<EnvironmentEntry>& entries) {
  return {entries.begin(), entries.end()};
}

TEST(StartOfHostTest, CountsOnlyHostsThatHaveWorkers) {
  const auto ranks = Ranks({{"a", 1}, {"empty", 0}, {"c", 2}, {"d", 1}});
  const wire::StartGeneration start = StartOfHost(ranks, 2);
  EXPECT_EQ(start.host_name, "c");
  EXPECT_EQ(start.host_index, 1);
  EXPECT_EQ(start.host_count, 3);
  EXPECT_EQ(start.size, 4);
  EXPECT_EQ(start.local_size, 2);
  EXPECT_EQ(start.workers, (std::vector<wire::WorkerSlot>{
                               {.rank = 1, .local_rank = 0, .cross_rank = 1, .cross_size = 3},
                               {.rank = 2, .local_rank = 1, .cross_rank = 0, .cross_size = 1}}));
}

TEST(StartOfHostTest, HasNoWorkersForAHostWithoutAny) {
  EXPECT_TRUE(StartOfHost(Ranks({{"a", 1}, {"empty", 0}}), 1).workers.empty());
}

TEST(SlotEnvironmentTest, TellsHorovodAndTorchTheSamePlace) {
  wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}, {"c", 2}}), 1);
  start.gloo_interface = "eth0";
  start.nccl_interfaces = "eth0,ib0";
  start.master_address = "10.0.0.5";
  start.master_port = 29400;
  start.restart_count = 2;
  start.max_restarts = 3;
  EXPECT_EQ(ToMap(SlotEnvironment(start, start.workers[1], "job-1", 40001)),
            (std::map<std::string, std::string>{{"HOROVOD_HOSTNAME", "c"},
                                                {"HOROVOD_RANK", "2"},
                                                {"HOROVOD_SIZE", "3"},
                                                {"HOROVOD_LOCAL_RANK", "1"},
                                                {"HOROVOD_LOCAL_SIZE", "2"},
                                                {"HOROVOD_CROSS_RANK", "0"},
                                                {"HOROVOD_CROSS_SIZE", "1"},
                                                {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
                                                {"HOROVOD_GLOO_RENDEZVOUS_PORT", "40001"},
                                                {"HOROVOD_CONTROLLER", "gloo"},
                                                {"HOROVOD_CPU_OPERATIONS", "gloo"},
                                                {"HOROVOD_GLOO_IFACE", "eth0"},
                                                {"NCCL_SOCKET_IFNAME", "eth0,ib0"},
                                                {"GLOO_SOCKET_IFNAME", "eth0"},
                                                {"PYTHONUNBUFFERED", "1"},
                                                {"RANK", "2"},
                                                {"WORLD_SIZE", "3"},
                                                {"LOCAL_RANK", "1"},
                                                {"LOCAL_WORLD_SIZE", "2"},
                                                {"GROUP_RANK", "1"},
                                                {"GROUP_WORLD_SIZE", "2"},
                                                {"ROLE_NAME", "default"},
                                                {"ROLE_RANK", "2"},
                                                {"ROLE_WORLD_SIZE", "3"},
                                                {"MASTER_ADDR", "10.0.0.5"},
                                                {"MASTER_PORT", "29400"},
                                                {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                {"TORCHELASTIC_RUN_ID", "job-1"},
                                                {"TORCHELASTIC_USE_AGENT_STORE", "False"}}));
}

TEST(SlotEnvironmentTest, LeavesOutWhatIsNotKnownYet) {
  const wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}}), 0);
  const auto map = ToMap(SlotEnvironment(start, start.workers[0], "", 0));
  for (const char* name :
       {"HOROVOD_GLOO_RENDEZVOUS_PORT", "HOROVOD_GLOO_IFACE", "MASTER_ADDR", "NCCL_SOCKET_IFNAME",
        "GLOO_SOCKET_IFNAME", "MASTER_PORT", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(map.contains(name)) << name;
  }
  EXPECT_EQ(map.at("HOROVOD_RANK"), "0");
}

TEST(SlotEnvironmentTest, TellsTorchNothingInElasticJobs) {
  wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}}), 0);
  start.is_torch_environment = false;
  const auto map = ToMap(SlotEnvironment(start, start.workers[0], "job-1", 1));
  for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "TORCHELASTIC_RUN_ID"}) {
    EXPECT_FALSE(map.contains(name)) << name;
  }
  EXPECT_TRUE(map.contains("HOROVOD_RANK"));
}

TEST(SlotEnvironmentTest, NamesNoVariableTwice) {
  wire::StartGeneration start = StartOfHost(Ranks({{"a", 1}}), 0);
  start.gloo_interface = start.nccl_interfaces = start.master_address = "x";
  start.master_port = 1;
  std::set<std::string> names;
  for (const auto& [name, value] : SlotEnvironment(start, start.workers[0], "j", 1)) {
    EXPECT_TRUE(names.insert(name).second) << name;
  }
}

}  // namespace
}  // namespace hvdray
