// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_host_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "tests/unit/ray_driver/ray_cluster.h"

namespace hvdray {
namespace {

using std::chrono::seconds;
using Orders = RayHostPlan::Orders;

RayHostPolicy Policy(int max_slots, bool has_cooldown = false) {
  RayHostPolicy policy;
  policy.group_prefix = "hvdray-j";
  policy.max_slots = max_slots;
  policy.has_cooldown = has_cooldown;
  return policy;
}

const TimePoint kStart(seconds(1000));

TEST(RayHostPlanTest, EachNodeWithFreeRoomGetsAGroupThatIsPinnedToIt) {
  RayHostPlan plan(Policy(100));
  const Orders orders = plan.OnNodes(
      {{Node("a", "10.0.0.1", 4, 3), Node("b", "10.0.0.2", 4, 0), Dead(Node("c", "10.0.0.3", 4, 4)),
        Node("d", "10.0.0.4", 2, 2), Node("e", "10.0.0.4", 2, 2)}},
      kStart);
  ASSERT_EQ(orders.reserve.size(), 3U);
  EXPECT_EQ(orders.reserve[0].name, "hvdray-j-1");
  EXPECT_EQ(orders.reserve[0].bundles,
            (std::vector<RayAmounts>{{{"CPU", 3}, {"node:10.0.0.1", 0.001}}}));
  EXPECT_TRUE(orders.reserve[0].selectors.empty());
  // Two nodes at one address: that does not tell them apart.
  EXPECT_EQ(orders.reserve[1].bundles, (std::vector<RayAmounts>{{{"CPU", 2}}}));
  EXPECT_EQ(orders.reserve[1].selectors, (std::vector<RayLabels>{{{"ray.io/node-id", "d"}}}));
  EXPECT_EQ(orders.reserve[2].selectors, (std::vector<RayLabels>{{{"ray.io/node-id", "e"}}}));
  EXPECT_TRUE(plan.hosts().empty()) << "no group is there yet";
}

TEST(RayHostPlanTest, AHostIsThereWhenItsGroupIs) {
  RayHostPlan plan(Policy(100));
  plan.OnNodes({Node("a", "10.0.0.1", 4, 3)}, kStart);
  EXPECT_FALSE(plan.OnGroup(Pending("hvdray-j-1", "", 1), kStart).has_news);
  const Orders orders = plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  EXPECT_TRUE(orders.has_news);
  ASSERT_EQ(orders.placed.size(), 1U);
  EXPECT_EQ(orders.placed[0].first, "10.0.0.1");
  EXPECT_EQ(orders.placed[0].second, (RayEndpointPlace{"hvdray-j-1", {0}}));
  EXPECT_EQ(plan.hosts(), (std::vector<HostSlots>{{"10.0.0.1", 3}}));
  EXPECT_EQ(plan.held_slots(), 3);
  EXPECT_EQ(plan.IpOf("10.0.0.1"), "10.0.0.1");
  EXPECT_EQ(plan.IpOf("10.0.0.2"), "");
  EXPECT_FALSE(plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart).has_news) << "told again";
}

TEST(RayHostPlanTest, NoMoreThanTheMostIsAskedFor) {
  RayHostPlan plan(Policy(5));
  const Orders orders = plan.OnNodes(
      {{Node("a", "10.0.0.1", 4, 4), Node("b", "10.0.0.2", 4, 4), Node("c", "10.0.0.3", 4, 4)}},
      kStart);
  ASSERT_EQ(orders.reserve.size(), 2U);
  EXPECT_EQ(orders.reserve[1].bundles.front().at("CPU"), 1);
}

TEST(RayHostPlanTest, ASpreadJobTakesAsEvenlyAsThereIsRoom) {
  RayHostPolicy policy = Policy(6);
  policy.is_spread = true;
  RayHostPlan plan(policy);
  const Orders orders = plan.OnNodes(
      {{Node("a", "10.0.0.1", 4, 4), Node("b", "10.0.0.2", 4, 1), Node("c", "10.0.0.3", 4, 4)}},
      kStart);
  ASSERT_EQ(orders.reserve.size(), 3U);
  EXPECT_EQ(orders.reserve[0].bundles.front().at("CPU"), 3);
  EXPECT_EQ(orders.reserve[1].bundles.front().at("CPU"), 1);
  EXPECT_EQ(orders.reserve[2].bundles.front().at("CPU"), 2);
}

TEST(RayHostPlanTest, ANodeThatGoesTakesItsHostWithItAndMakesRoom) {
  RayHostPlan plan(Policy(2));
  const RayNode a = Node("a", "10.0.0.1", 2, 2);
  const RayNode b = Node("b", "10.0.0.2", 2, 2);
  plan.OnNodes({a, b}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  const Orders orders = plan.OnNodes({Dead(a), b}, kStart);
  EXPECT_EQ(orders.removed, std::vector<std::string>{"10.0.0.1"});
  EXPECT_EQ(orders.release, std::vector<std::string>{"hvdray-j-1"});
  EXPECT_TRUE(orders.has_news);
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].bundles.front().count("node:10.0.0.2"), 1U);
  EXPECT_TRUE(plan.hosts().empty());
}

TEST(RayHostPlanTest, ANewNodeAtAnOldAddressIsAnotherHost) {
  RayHostPlan plan(Policy(9));
  const RayNode a = Node("aaaaaaaa1", "10.0.0.1", 2, 2);
  plan.OnNodes({a}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"aaaaaaaa1"}), kStart);
  plan.OnNodes({Dead(a)}, kStart);
  plan.OnNodes({Dead(a), Node("bbbbbbbb2", "10.0.0.1", 2, 2)}, kStart);
  plan.OnGroup(Created("hvdray-j-2", {"bbbbbbbb2"}), kStart);
  EXPECT_EQ(plan.hosts(), (std::vector<HostSlots>{{"10.0.0.1-bbbbbbbb", 2}}));
}

TEST(RayHostPlanTest, ALimitKeepsToItsNodesAndAsksForNoNewOnes) {
  RayHostPolicy policy = Policy(9);
  policy.wanted_slots = 9;
  RayHostPlan plan(policy);
  const RayNode a = Node("a", "10.0.0.1", 4, 4);
  const RayNode b = Node("b", "10.0.0.2", 4, 4);
  plan.Limit({}, kStart);
  EXPECT_TRUE(plan.OnNodes({a, b}, kStart).reserve.empty()) << "nobody has named a node yet";
  const Orders orders = plan.Limit({{"10.0.0.2", 3}, {"10.0.0.9", 1}}, kStart);
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].bundles,
            (std::vector<RayAmounts>{{{"CPU", 3}, {"node:10.0.0.2", 0.001}}}));
  EXPECT_TRUE(plan.Limit({{"10.0.0.2", 3}}, kStart).reserve.empty()) << "told again";
}

TEST(RayHostPlanTest, AHostBeyondTheLimitIsKeptUntilItsAgentHasEnded) {
  RayHostPlan plan(Policy(9));
  const RayNode a = Node("a", "10.0.0.1", 2, 2);
  const RayNode b = Node("b", "10.0.0.2", 2, 2);
  plan.OnNodes({a, b}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  plan.OnEndpoint("10.0.0.1", true, kStart);
  plan.OnGroup(Created("hvdray-j-2", {"b"}), kStart);

  const Orders without = plan.Limit({}, kStart);
  EXPECT_EQ(without.release, std::vector<std::string>{"hvdray-j-2"}) << "no agent was there";
  EXPECT_TRUE(without.has_news);
  EXPECT_TRUE(plan.hosts().empty());
  EXPECT_EQ(plan.held_slots(), 0);
  EXPECT_EQ(plan.IpOf("10.0.0.1"), "10.0.0.1") << "its workers end in good order";

  EXPECT_TRUE(plan.Limit({{"10.0.0.1", 2}}, kStart).has_news);
  EXPECT_EQ(plan.hosts(), (std::vector<HostSlots>{{"10.0.0.1", 2}})) << "back in time";

  EXPECT_TRUE(plan.Limit({{"10.0.0.1", 1}}, kStart).release.empty());
  const Orders ended = plan.OnEndpoint("10.0.0.1", false, kStart);
  EXPECT_EQ(ended.release, std::vector<std::string>{"hvdray-j-1"});
  ASSERT_EQ(ended.reserve.size(), 1U) << "its node may be used again";
  EXPECT_EQ(ended.reserve[0].bundles.front().at("CPU"), 1);
}

TEST(RayHostPlanTest, AGroupThatRayMovesIsGivenBack) {
  RayHostPlan plan(Policy(9));
  plan.OnNodes({Node("a", "10.0.0.1", 2, 2)}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  const Orders orders = plan.OnGroup(
      {.name = "hvdray-j-1", .state = BrokerGroupState::kRescheduling, .bundles = {""}}, kStart);
  EXPECT_EQ(orders.release, std::vector<std::string>{"hvdray-j-1"});
  EXPECT_EQ(orders.removed, std::vector<std::string>{"10.0.0.1"});
  EXPECT_TRUE(orders.reserve.empty()) << "the node is left alone for a while";
  EXPECT_EQ(plan.NextDeadline(), kStart + seconds(10));
  EXPECT_EQ(plan.Tick(kStart + seconds(10)).reserve.size(), 1U);
}

TEST(RayHostPlanTest, AGroupThatSomebodyElseBeatsIsGivenUpAndTriedAgain) {
  RayHostPlan plan(Policy(9));
  plan.OnNodes({Node("a", "10.0.0.1", 2, 2)}, kStart);
  plan.OnGroup(Pending("hvdray-j-1", "NO_RESOURCES", 1), kStart);
  EXPECT_EQ(plan.NextDeadline(), kStart + seconds(10));
  EXPECT_EQ(plan.Tick(kStart + seconds(10)).release, std::vector<std::string>{"hvdray-j-1"});
  EXPECT_TRUE(plan.OnNodes({Node("a", "10.0.0.1", 2, 1)}, kStart + seconds(11)).reserve.empty());
  const Orders again = plan.Tick(kStart + seconds(20));
  ASSERT_EQ(again.reserve.size(), 1U);
  EXPECT_EQ(again.reserve[0].bundles.front().at("CPU"), 1);
  EXPECT_FALSE(plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart).has_news) << "too late";
}

TEST(RayHostPlanTest, WithoutCooldownTheSlotsOfAHostThatFailedGoToOthers) {
  RayHostPlan plan(Policy(2));
  plan.OnNodes({Node("a", "10.0.0.1", 2, 2)}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  plan.OnEndpoint("10.0.0.1", true, kStart);
  const Orders lost = plan.OnEndpoint("10.0.0.1", false, kStart);
  EXPECT_EQ(lost.release, std::vector<std::string>{"hvdray-j-1"});
  EXPECT_EQ(lost.removed, std::vector<std::string>{"10.0.0.1"});
  const Orders orders =
      plan.OnNodes({Node("a", "10.0.0.1", 2, 2), Node("b", "10.0.0.2", 2, 2)}, kStart);
  ASSERT_EQ(orders.reserve.size(), 1U) << "the job holds something against a";
  EXPECT_EQ(orders.reserve[0].bundles.front().count("node:10.0.0.2"), 1U);
}

TEST(RayHostPlanTest, WithCooldownTheHostIsKeptAndOthersMayStandInForIt) {
  RayHostPlan plan(Policy(2, /*has_cooldown=*/true));
  plan.OnNodes({Node("a", "10.0.0.1", 2, 2), Node("b", "10.0.0.2", 2, 2)}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  plan.OnEndpoint("10.0.0.1", true, kStart);
  const Orders lost = plan.OnEndpoint("10.0.0.1", false, kStart);
  EXPECT_TRUE(lost.release.empty());
  EXPECT_EQ(lost.reserve.size(), 1U);
  EXPECT_EQ(plan.held_slots(), 0);
  plan.OnEndpoint("10.0.0.1", true, kStart);
  EXPECT_EQ(plan.held_slots(), 2);
}

TEST(RayHostPlanTest, OnlyTheHostsThatAreNamedAreUsed) {
  RayHostPolicy policy = Policy(9);
  policy.only_ips = {"10.0.0.2"};
  RayHostPlan plan(policy);
  const Orders orders =
      plan.OnNodes({Node("a", "10.0.0.1", 2, 2), Node("b", "10.0.0.2", 2, 2)}, kStart);
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].bundles.front().count("node:10.0.0.2"), 1U);
}

RayHostPolicy WantsSlots(int wanted) {
  RayHostPolicy policy = Policy(100);
  policy.wanted_slots = wanted;
  return policy;
}

TEST(RayHostPlanTest, WhatIsMissingStandsAsAPendingGroupUntilItIsThere) {
  RayHostPolicy policy = WantsSlots(5);
  policy.ask.labels = {{"zone", "eu"}};
  RayHostPlan plan(policy);
  RayNode a = Node("a", "10.0.0.1", 2, 2);
  a.labels = policy.ask.labels;
  Orders orders = plan.OnNodes({a}, kStart);
  ASSERT_EQ(orders.reserve.size(), 2U);
  EXPECT_EQ(orders.reserve[1].name, "hvdray-j-2");
  EXPECT_EQ(orders.reserve[1].strategy, "PACK");
  EXPECT_EQ(orders.reserve[1].bundles, std::vector<RayAmounts>(3, {{"CPU", 1}}));
  EXPECT_EQ(orders.reserve[1].selectors, std::vector<RayLabels>(3, {{"zone", "eu"}}));
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  EXPECT_TRUE(plan.OnGroup(Pending("hvdray-j-2", "INFEASIBLE", 3), kStart).release.empty());
  EXPECT_TRUE(plan.OnNodes({a}, kStart + seconds(1)).reserve.empty()) << "it stands";
  RayNode b = Node("b", "10.0.0.2", 2, 2);
  b.labels = policy.ask.labels;
  orders = plan.OnNodes({a, b}, kStart + seconds(2));
  EXPECT_EQ(orders.release, std::vector<std::string>{"hvdray-j-2"});
  ASSERT_EQ(orders.reserve.size(), 2U) << "the new node's, and what is still missing";
  EXPECT_EQ(orders.reserve[1].bundles.size(), 1U);
  RayNode c = Node("c", "10.0.0.3", 2, 2);
  c.labels = policy.ask.labels;
  orders = plan.OnNodes({a, b, c}, kStart + seconds(3));
  EXPECT_EQ(orders.release, std::vector<std::string>{"hvdray-j-4"});
  EXPECT_EQ(orders.reserve.size(), 1U) << "nothing is missing any more";
}

TEST(RayHostPlanTest, DemandThatRayHasRoomForIsGivenBackForAPinnedGroup) {
  RayHostPlan plan(WantsSlots(2));
  const RayNode full = Node("a", "10.0.0.1", 2, 0);
  ASSERT_EQ(plan.OnNodes({full}, kStart).reserve.size(), 1U);
  Orders orders = plan.OnGroup(Created("hvdray-j-1", {"a", "a"}), kStart + seconds(1));
  EXPECT_EQ(orders.release, std::vector<std::string>{"hvdray-j-1"});
  EXPECT_TRUE(orders.reserve.empty() && plan.hosts().empty());
  orders = plan.OnNodes({Node("a", "10.0.0.1", 2, 2)}, kStart + seconds(2));
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].bundles.front().at("node:10.0.0.1"), 0.001);
}

TEST(RayHostPlanTest, DemandComesAgainWhenTheRoomWentToSomebodyElse) {
  RayHostPlan plan(WantsSlots(2));
  const RayNode full = Node("a", "10.0.0.1", 2, 0);
  plan.OnNodes({full}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a", "a"}), kStart);
  EXPECT_TRUE(plan.OnNodes({full}, kStart + seconds(1)).reserve.empty());
  ASSERT_EQ(plan.NextDeadline(), kStart + seconds(3));
  EXPECT_EQ(plan.Tick(kStart + seconds(3)).reserve.size(), 1U);
  EXPECT_FALSE(plan.NextDeadline().has_value());
}

TEST(RayHostPlanTest, DemandIsNotForNodesThatTheJobHasGivenUp) {
  RayHostPlan plan(WantsSlots(1));
  plan.OnNodes({Node("a", "10.0.0.1", 1, 1)}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  const Orders orders = plan.OnEndpoint("10.0.0.1", /*is_live=*/false, kStart);
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].selectors, (std::vector<RayLabels>{{{"ray.io/node-id", "!in(a)"}}}));
}

TEST(RayHostPlanTest, WhereNobodyAddsNodesNothingIsAskedOfThem) {
  RayHostPlan plan(WantsSlots(0));
  EXPECT_TRUE(plan.OnNodes({Node("a", "10.0.0.1", 2, 0)}, kStart).reserve.empty());
}

TEST(RayHostPlanTest, RoomThatIsMadeOnANodeLaterIsAHostOfItsOwn) {
  RayHostPlan plan(Policy(9));
  plan.OnNodes({Node("a", "10.0.0.1", 4, 1)}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart + seconds(1));
  EXPECT_TRUE(plan.OnNodes({Node("a", "10.0.0.1", 4, 1)}, kStart + seconds(2)).reserve.empty())
      << "may be from before the group";
  EXPECT_TRUE(plan.OnNodes({Node("a", "10.0.0.1", 4, 0)}, kStart + seconds(3)).reserve.empty());
  EXPECT_EQ(plan.NextDeadline(), kStart + seconds(4));
  EXPECT_TRUE(plan.Tick(kStart + seconds(4)).reserve.empty());
  EXPECT_EQ(plan.NextDeadline(), std::nullopt);
  const Orders orders = plan.OnNodes({Node("a", "10.0.0.1", 4, 2)}, kStart + seconds(9));
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].name, "hvdray-j-2");
  EXPECT_EQ(orders.reserve[0].bundles.front().at("CPU"), 2);
  EXPECT_TRUE(plan.OnNodes({Node("a", "10.0.0.1", 4, 2)}, kStart + seconds(9)).reserve.empty())
      << "it is asked for once";
  plan.OnGroup(Created("hvdray-j-2", {"a"}), kStart + seconds(10));
  EXPECT_EQ(plan.hosts(), (std::vector<HostSlots>{{"10.0.0.1", 1}, {"10.0.0.1-2", 2}}));
  EXPECT_EQ(plan.IpOf("10.0.0.1-2"), "10.0.0.1");
  const Orders gone = plan.OnNodes({Dead(Node("a", "10.0.0.1", 4, 4))}, kStart + seconds(11));
  EXPECT_EQ(gone.removed, (std::vector<std::string>{"10.0.0.1-2", "10.0.0.1"}));
}

TEST(RayHostPlanTest, WhatALostNodeHeldMayBeHadOnANodeThatIsInUse) {
  RayHostPlan plan(Policy(4));
  const RayNode a = Node("a", "10.0.0.1", 2, 2);
  plan.OnNodes({a, Node("b", "10.0.0.2", 6, 6)}, kStart);
  plan.OnGroup(Created("hvdray-j-1", {"a"}), kStart);
  plan.OnGroup(Created("hvdray-j-2", {"b"}), kStart);
  EXPECT_TRUE(plan.Tick(kStart + seconds(3)).reserve.empty());
  const RayNode b = Node("b", "10.0.0.2", 6, 4);
  EXPECT_TRUE(plan.OnNodes({a, b}, kStart + seconds(5)).reserve.empty()) << "it has its four";
  const Orders orders = plan.OnNodes({Dead(a), b}, kStart + seconds(6));
  ASSERT_EQ(orders.reserve.size(), 1U);
  EXPECT_EQ(orders.reserve[0].bundles.front().at("CPU"), 2);
}

// Plays Ray and a job at random; the plan never holds too much, never waits for two groups of one
// node, and what it has asked for it either holds or has given back.
class RandomCluster {
 public:
  RandomCluster(unsigned seed, int max_slots)
      : random_(seed),
        max_slots_(max_slots),
        has_cooldown_(seed % 2 == 0),
        plan_(Policy(max_slots, has_cooldown_)) {
    for (int i = 0; i < 5; ++i) {
      const std::string name = std::to_string(i);
      nodes_.push_back(Node("node" + name, "10.0.0." + name, 4, 4));
    }
  }

  void Step() {
    now_ += std::chrono::milliseconds(random_() % 4000);
    switch (random_() % 6) {
      case 0: {
        RayNode& node = nodes_[random_() % nodes_.size()];
        node.is_alive = !node.is_alive;
        node.free = {{"CPU", node.is_alive ? static_cast<double>(random_() % 5) : 0}};
        return Take(plan_.OnNodes({nodes_}, now_));
      }
      case 1:
      case 2:
        if (asked_.empty()) return;
        return Answer(std::next(asked_.begin(), random_() % asked_.size())->first);
      case 3: {
        const std::vector<HostSlots> hosts = plan_.hosts();
        if (hosts.empty()) return;
        return Take(
            plan_.OnEndpoint(hosts[random_() % hosts.size()].host, random_() % 3 != 0, now_));
      }
      default:
        Take(plan_.Tick(now_));
        EXPECT_GT(plan_.NextDeadline().value_or(TimePoint::max()), now_);
    }
  }

 private:
  void Answer(const std::string& name) {
    constexpr std::array kStates = {BrokerGroupState::kCreated, BrokerGroupState::kCreated,
                                    BrokerGroupState::kPending, BrokerGroupState::kRescheduling,
                                    BrokerGroupState::kFailed};
    BrokerGroup group = {.name = name, .state = kStates[random_() % kStates.size()]};
    const bool has_come = group.state == BrokerGroupState::kCreated;
    group.bundles = {has_come ? asked_.at(name) : ""};
    if (has_come) came_.insert(name);
    Take(plan_.OnGroup(group, now_));
  }

  void Take(const Orders& orders) {
    for (const std::string& name : orders.release) EXPECT_EQ(asked_.erase(name), 1U) << name;
    for (const BrokerReserve& reserve : orders.reserve) {
      ASSERT_EQ(reserve.bundles.size(), 1U);
      const auto node = std::find_if(nodes_.begin(), nodes_.end(), [&](const RayNode& n) {
        return reserve.bundles[0].contains("node:" + n.ip);
      });
      ASSERT_NE(node, nodes_.end());
      EXPECT_TRUE(node->is_alive);
      EXPECT_LE(reserve.bundles[0].at("CPU"), node->free.at("CPU"));
      EXPECT_TRUE(asked_.emplace(reserve.name, node->id).second);
    }
    std::set<std::string> waited_for;
    for (const auto& [name, node] : asked_) {
      if (!came_.contains(name)) {
        EXPECT_TRUE(waited_for.insert(node).second) << node;
      }
    }
    EXPECT_LE(plan_.hosts().size(), asked_.size());
    // A host that comes back after others have stood in for it is one too many for a while.
    if (!has_cooldown_) {
      EXPECT_LE(plan_.held_slots(), max_slots_);
    }
  }

  std::mt19937 random_;
  const int max_slots_;
  const bool has_cooldown_;
  RayHostPlan plan_;
  TimePoint now_ = kStart;
  std::vector<RayNode> nodes_;
  std::map<std::string, std::string> asked_;  // groups, with their node
  std::set<std::string> came_;                // those that were there at least once
};

TEST(RayHostPlanTest, WhateverHappensItHoldsWhatItMay) {
  for (unsigned seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomCluster cluster(seed, static_cast<int>(seed % 12) + 1);
    for (int step = 0; step < 200 && !testing::Test::HasFailure(); ++step) cluster.Step();
    if (testing::Test::HasFailure()) return;
  }
}

}  // namespace
}  // namespace hvdray
