// SPDX-License-Identifier: Apache-2.0
// The vectors of Horovod spec 1.3 and the inputs that are refused.
#include "launcher/job/placement.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

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
  ASSERT_FALSE(ranks.ok());
  EXPECT_EQ(ranks.status().code(), ErrorCode::kNotEnoughSlots);
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
  ASSERT_FALSE(ranks.ok());
  EXPECT_EQ(ranks.status().code(), ErrorCode::kSpecInvalid);
  EXPECT_EQ(ranks.status().message(), "host a is listed twice");
}

TEST(AssignRanksTest, RefusesNegativeSlots) {
  EXPECT_EQ(AssignRanks(std::vector<HostSlots>{{"a", -1}}, 1, {}).status().code(),
            ErrorCode::kSpecInvalid);
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

}  // namespace
}  // namespace hvdray
