// SPDX-License-Identifier: Apache-2.0
// What options become as bundles, and what is said of a cluster that can't hold them.
#include "launcher/job/ray_request.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/ray_request.txt");

RayNode Node(const std::string& ip, double cpus, double free_cpus, double gpus = 0,
             double free_gpus = 0) {
  RayNode node;
  node.id = "id-" + ip;
  node.ip = ip;
  node.total = {{"CPU", cpus}, {"node:" + ip, 1}};
  node.free = {{"CPU", free_cpus}, {"node:" + ip, 1}};
  if (gpus > 0) {
    node.total["GPU"] = gpus;
    node.free["GPU"] = free_gpus;
  }
  return node;
}

RayRequest Made(const RayAsk& ask) {
  const Result<RayRequest> request = MakeRayRequest(ask);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? *request : RayRequest();
}

TEST(RayRequestTest, SlotsAreBundlesOfTheirOwnAndPacked) {
  RayAsk ask;
  ask.np = 3;
  ask.gpus_per_slot = 1;
  ask.slot_resources = {{"disk", 0.5}};
  const RayRequest request = Made(ask);
  EXPECT_EQ(request.strategy, "PACK");
  EXPECT_EQ(request.bundles, std::vector<RayAmounts>(3, {{"CPU", 1}, {"GPU", 1}, {"disk", 0.5}}));
  EXPECT_EQ(request.slots, (std::vector<int>{1, 1, 1}));
  EXPECT_TRUE(request.selectors.empty());
}

TEST(RayRequestTest, HostsAreABundleEachAndSpread) {
  RayAsk ask;
  ask.np = 6;
  ask.num_hosts = 2;
  ask.cpus_per_slot = 2;
  ask.gpus_per_slot = 1;
  ask.labels = {{"zone", "a"}};
  const RayRequest request = Made(ask);
  EXPECT_EQ(request.strategy, "STRICT_SPREAD");
  EXPECT_EQ(request.bundles, std::vector<RayAmounts>(2, {{"CPU", 6}, {"GPU", 3}}));
  EXPECT_EQ(request.slots, (std::vector<int>{3, 3}));
  EXPECT_EQ(request.selectors, std::vector<RayLabels>(2, {{"zone", "a"}}));
}

TEST(RayRequestTest, NamedHostsArePinnedAndGetTheirSlotsInOrder) {
  RayAsk ask;
  ask.np = 3;
  ask.named = {{"10.0.0.11", 2}, {"10.0.0.12", 2}, {"10.0.0.13", 2}};
  const RayRequest request = Made(ask);
  EXPECT_EQ(request.strategy, "STRICT_SPREAD");
  EXPECT_EQ(request.bundles, (std::vector<RayAmounts>{{{"CPU", 2}, {"node:10.0.0.11", 0.001}},
                                                      {{"CPU", 1}, {"node:10.0.0.12", 0.001}}}));
  EXPECT_EQ(request.slots, (std::vector<int>{2, 1}));
}

TEST(RayRequestTest, AnyStrategyOfRaysWorksForSlots) {
  RayAsk ask;
  ask.np = 2;
  for (const char* strategy : {"PACK", "SPREAD", "STRICT_PACK", "STRICT_SPREAD"}) {
    ask.strategy = strategy;
    EXPECT_EQ(Made(ask).strategy, strategy);
  }
  ask.strategy = "pack";
  EXPECT_EQ(MakeRayRequest(ask).status().code(), ErrorCode::kUsage);
}

TEST(RayRequestTest, RefusesWhatNoBundleCanBe) {
  RayAsk nothing;
  nothing.cpus_per_slot = 0;
  ExpectError(MakeRayRequest(nothing).status(), ErrorCode::kUsage, {"slot", "no resources"});
  RayAsk negative;
  negative.slot_resources = {{"disk", -1}};
  ExpectError(MakeRayRequest(negative).status(), ErrorCode::kUsage, {"slot", "-1 disk"});
  RayAsk uneven;
  uneven.np = 5;
  uneven.num_hosts = 2;
  ExpectError(MakeRayRequest(uneven).status(), ErrorCode::kUsage, {"5 slots", "2 hosts"});
  RayAsk packed;
  packed.np = 2;
  packed.num_hosts = 2;
  packed.strategy = "PACK";
  EXPECT_EQ(MakeRayRequest(packed).status().code(), ErrorCode::kUsage);
}

TEST(RayFitTest, NothingIsMissingWhereThereIsRoom) {
  const std::vector<RayNode> nodes = {Node("a", 2, 2), Node("b", 2, 1)};
  RayAsk ask;
  ask.np = 3;
  const RayFit fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kFree);
  EXPECT_EQ(fit.missing, "");
}

TEST(RayFitTest, BusyNodesAreNoReasonToGiveUp) {
  const std::vector<RayNode> nodes = {Node("a", 2, 0), Node("b", 2, 1)};
  RayAsk ask;
  ask.np = 4;
  const RayFit fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kBusy);
  ExpectSays(fit.missing, {"4 slots of 1 CPU", "2 live nodes", "1 now"});
}

TEST(RayFitTest, TooManySlotsAreInfeasible) {
  const std::vector<RayNode> nodes = {Node("a", 2, 2), Node("b", 2, 2)};
  RayAsk ask;
  ask.np = 5;
  const RayFit fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kInfeasible);
  ExpectSays(fit.missing, {"5 slots of 1 CPU", "2 live nodes", "4"});
}

TEST(RayFitTest, HostsAreCountedNotTheirRoom) {
  const std::vector<RayNode> nodes = {Node("a", 64, 64), Node("b", 64, 64), Node("c", 1, 1)};
  RayAsk ask;
  ask.np = 6;
  ask.num_hosts = 3;
  const RayFit fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kInfeasible);
  ExpectSays(fit.missing, {"3 hosts", "2 CPU", "2 of 3 live nodes"});
}

TEST(RayFitTest, TheResourceThatNobodyHasIsNamed) {
  const std::vector<RayNode> nodes = {Node("a", 2, 2), Node("b", 2, 2, 1, 0)};
  RayAsk ask;
  ask.gpus_per_slot = 1;
  RayFit fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kBusy);
  ExpectSays(fit.missing, {"1 slot of 1 CPU, 1 GPU", "no live node", "GPU free"});
  ask.gpus_per_slot = 2;
  fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kInfeasible);
  ExpectSays(fit.missing, {"1 slot of 1 CPU, 2 GPU", "no live node", "1 GPU"});
}

TEST(RayFitTest, OneHostForAllNeedsOneThatIsLargeEnough) {
  const std::vector<RayNode> nodes = {Node("a", 2, 2), Node("b", 3, 3)};
  RayAsk ask;
  ask.np = 4;
  ask.strategy = "STRICT_PACK";
  ExpectSays(FitRequest(Made(ask), nodes).missing,
             {"4 slots of 1 CPU", "one host", "no live node", "3"});
  ask.np = 3;
  EXPECT_EQ(FitRequest(Made(ask), nodes).room, RayRoom::kFree);
}

TEST(RayFitTest, ANamedHostThatIsNotThereIsNamed) {
  std::vector<RayNode> nodes = {Node("10.0.0.11", 2, 2), Node("10.0.0.12", 2, 2)};
  RayAsk ask;
  ask.np = 2;
  ask.named = {{"10.0.0.11", 1}, {"10.0.0.13", 1}};
  ExpectSays(FitRequest(Made(ask), nodes).missing, {"no live node 10.0.0.13"});
  ask.named = {{"10.0.0.11", 1}, {"10.0.0.12", 1}};
  EXPECT_EQ(FitRequest(Made(ask), nodes).room, RayRoom::kFree);
  nodes[1].free["CPU"] = 0;
  const RayFit fit = FitRequest(Made(ask), nodes);
  EXPECT_EQ(fit.room, RayRoom::kBusy);
  ExpectSays(fit.missing, {"10.0.0.12: ", "1 host", "1 CPU", "no live node", "CPU free"});
  nodes[1].is_alive = false;
  ExpectSays(FitRequest(Made(ask), nodes).missing, {"no live node 10.0.0.12"});
}

TEST(RayFitTest, LabelsAreReadAsRayReadsThem) {
  std::vector<RayNode> nodes = {Node("a", 2, 2)};
  nodes[0].labels = {{"zone", "eu-1"}};
  RayAsk ask;
  const auto room = [&](const std::string& name, const std::string& value) {
    ask.labels = {{name, value}};
    return FitRequest(Made(ask), nodes).room;
  };
  EXPECT_EQ(room("zone", "eu-1"), RayRoom::kFree);
  EXPECT_EQ(room("zone", "eu-2"), RayRoom::kInfeasible);
  EXPECT_EQ(room("zone", "!eu-2"), RayRoom::kFree);
  EXPECT_EQ(room("zone", "!eu-1"), RayRoom::kInfeasible);
  EXPECT_EQ(room("zone", "in(eu-2, eu-1)"), RayRoom::kFree);
  EXPECT_EQ(room("zone", "!in(eu-2,eu-1)"), RayRoom::kInfeasible);
  EXPECT_EQ(room("other", "x"), RayRoom::kInfeasible);
  EXPECT_EQ(room("other", "!x"), RayRoom::kFree);
  ask.labels = {{"zone", "us"}, {"rack", "7"}};
  ExpectSays(FitRequest(Made(ask), nodes).missing,
             {"none of 1 live node", "label", "rack=7", "zone=us"});
}

TEST(RayFitTest, DeadNodesDoNotCount) {
  std::vector<RayNode> nodes = {Node("a", 2, 2)};
  nodes[0].is_alive = false;
  ExpectSays(FitRequest(Made(RayAsk()), nodes).missing, {"no live node"});
  EXPECT_EQ(FitRequest(Made(RayAsk()), {}).room, RayRoom::kInfeasible);
  EXPECT_EQ(FreeSlotsOn(nodes[0], RayAsk()), 0);
}

TEST(RayFitTest, SumsOfFractionsAreWhatPeopleTakeThemFor) {
  RayNode node = Node("a", 0.3, 0.3);
  RayAsk ask;
  ask.cpus_per_slot = 0.1;
  EXPECT_EQ(FreeSlotsOn(node, ask), 3);
  ask.np = 3;
  EXPECT_EQ(FitRequest(Made(ask), std::vector<RayNode>{node}).room, RayRoom::kFree);
}

TEST(RayFitTest, WhatIsFreeNowIsAlsoFeasibleAndMoreNodesNeverHurt) {
  constexpr uint32_t kSeed = 20261122;
  std::mt19937 random(kSeed);
  const auto below = [&random](int n) {
    return static_cast<int>(random() % static_cast<uint32_t>(n));
  };
  for (int round = 0; round < 2000; ++round) {
    std::vector<RayNode> nodes;
    for (int i = below(4); i >= 0; --i) {
      const int cpus = below(5);
      const int gpus = below(3);
      nodes.push_back(Node("n" + std::to_string(i), cpus, cpus == 0 ? 0 : below(cpus + 1), gpus,
                           gpus == 0 ? 0 : below(gpus + 1)));
    }
    RayAsk ask;
    ask.np = 1 + below(6);
    ask.cpus_per_slot = 1 + below(2);
    ask.gpus_per_slot = below(2);
    const int kind = below(3);
    if (kind == 0) ask.num_hosts = ask.np;
    if (kind == 1) ask.strategy = below(2) == 0 ? "STRICT_PACK" : "SPREAD";
    const RayRequest request = Made(ask);
    const RayFit fit = FitRequest(request, nodes);
    EXPECT_EQ(fit.missing.empty(), fit.room == RayRoom::kFree) << kSeed << " round " << round;
    std::vector<RayNode> idle = nodes;
    for (RayNode& node : idle) node.free = node.total;
    const RayRoom empty = FitRequest(request, idle).room;
    EXPECT_NE(empty, RayRoom::kBusy) << kSeed << " round " << round;
    EXPECT_EQ(empty == RayRoom::kInfeasible, fit.room == RayRoom::kInfeasible)
        << kSeed << " round " << round;
    nodes.push_back(Node("extra", 64, 64, 8, 8));
    EXPECT_LE(FitRequest(request, nodes).room, fit.room) << kSeed << " round " << round;
  }
}

/// "4 1": the slots of each bundle.
std::string Shares(int np, const std::string& strategy, const std::vector<RayNode>& nodes) {
  RayAsk ask;
  ask.np = np;
  ask.strategy = strategy;
  std::string text;
  for (const int slots : GroupByNode(Made(ask), nodes).slots) {
    text += (text.empty() ? "" : " ") + std::to_string(slots);
  }
  return text;
}

TEST(GroupByNodeTest, PackedSlotsAreABundleForEachOfFewNodesTheRoomiestFirst) {
  const std::vector<RayNode> nodes = {Node("a", 8, 2), Node("b", 8, 4), Node("c", 8, 3)};
  EXPECT_EQ(Shares(2, "", nodes), "2");
  EXPECT_EQ(Shares(5, "", nodes), "4 1");
  EXPECT_EQ(Shares(9, "PACK", nodes), "4 3 2");
}

TEST(GroupByNodeTest, SpreadSlotsGoRoundAndPassOverNodesThatAreFull) {
  const std::vector<RayNode> nodes = {Node("a", 8, 2), Node("b", 8, 4), Node("c", 8, 3)};
  EXPECT_EQ(Shares(2, "SPREAD", nodes), "1 1");
  EXPECT_EQ(Shares(8, "SPREAD", nodes), "2 3 3");
}

TEST(GroupByNodeTest, WhereNodesHaveNoRoomEachSlotIsABundle) {
  const std::vector<RayNode> nodes = {Node("a", 8, 1), Node("b", 8, 1)};
  EXPECT_EQ(Shares(3, "", nodes), "1 1 1");
  EXPECT_EQ(Shares(3, "SPREAD", nodes), "1 1 1");
  EXPECT_EQ(Shares(2, "", {}), "1 1");
}

TEST(GroupByNodeTest, AllOnOneNodeIsOneBundleWhateverIsFree) {
  EXPECT_EQ(Shares(3, "STRICT_PACK", {Node("a", 8, 1)}), "3");
}

TEST(GroupByNodeTest, HostsOfTheirOwnStayAsTheyAre) {
  RayAsk ask;
  ask.np = 4;
  ask.num_hosts = 2;
  const std::vector<RayNode> nodes = {Node("a", 8, 8)};
  EXPECT_EQ(GroupByNode(Made(ask), nodes), Made(ask));
  EXPECT_EQ(Shares(3, "STRICT_SPREAD", nodes), "1 1 1");
}

TEST(GroupByNodeTest, ABundleHasAllThatItsSlotsNeedAndLabelsAndDeadNodesCount) {
  std::vector<RayNode> nodes = {Node("a", 8, 8, 4, 1), Node("b", 8, 8, 4, 3), Node("c", 8, 8, 8, 8),
                                Node("d", 8, 8, 8, 8)};
  for (RayNode& node : nodes) {
    node.free["disk"] = 9;
    if (node.ip != "c") node.labels = {{"zone", "x"}};
  }
  nodes[3].is_alive = false;
  RayAsk ask;
  ask.np = 4;
  ask.cpus_per_slot = 0.5;
  ask.gpus_per_slot = 1;
  ask.slot_resources = {{"disk", 2}};
  ask.labels = {{"zone", "x"}};
  const RayRequest grouped = GroupByNode(Made(ask), nodes);
  EXPECT_EQ(grouped.bundles, (std::vector<RayAmounts>{{{"CPU", 1.5}, {"GPU", 3}, {"disk", 6}},
                                                      {{"CPU", 0.5}, {"GPU", 1}, {"disk", 2}}}));
  EXPECT_EQ(grouped.slots, (std::vector<int>{3, 1}));
  EXPECT_EQ(grouped.selectors, std::vector<RayLabels>(2, {{"zone", "x"}}));
  EXPECT_EQ(grouped.strategy, "PACK");
}

TEST(RayFitTest, WhatIsFreeAndNotKnownIsNotFreeNorOutOfReach) {
  std::vector<RayNode> nodes = {Node("a", 4, 1), Node("b", 4, 4)};
  nodes[1].free = {};
  nodes[1].is_free_known = false;
  RayAsk ask;
  ask.np = 1;
  EXPECT_EQ(FitRequest(Made(ask), nodes).room, RayRoom::kFree);
  ask.np = 5;
  EXPECT_EQ(FitRequest(Made(ask), nodes).room, RayRoom::kBusy);
  ExpectSays(FitRequest(Made(ask), nodes).missing, {"1 of 2 live nodes", "not known"});
  ask.np = 9;
  EXPECT_EQ(FitRequest(Made(ask), nodes).room, RayRoom::kInfeasible);
}

}  // namespace
}  // namespace hvdray
