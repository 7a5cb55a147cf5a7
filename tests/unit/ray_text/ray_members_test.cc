// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_members.h"

#include <gtest/gtest.h>

#include "cluster/ray/ray_report.h"

namespace hvdray {
namespace {

using Words = std::vector<std::string>;

RayNode Node(std::string id, std::string ip, bool is_head = false) {
  RayNode node{.id = std::move(id), .ip = std::move(ip)};
  node.is_head = is_head;
  return node;
}

/// The ids of the machines' nodes; "-": none.
Words Matched(const Words& machines, const std::vector<RayMember>& members,
              const std::vector<RayNode>& nodes) {
  Words ids;
  for (const RayNode* node : MatchRayNodes(machines, 0, members, nodes)) {
    ids.push_back(node == nullptr ? "-" : node->id);
  }
  return ids;
}

TEST(RayMembersTest, WhatTheMachineItselfSaidOutweighsEveryAddress) {
  const std::vector<RayNode> nodes = {Node("1", "10.1.0.1", true), Node("2", "10.1.0.2"),
                                      Node("3", "10.0.0.2")};
  // The second interface of one machine, and a wrong name for another.
  EXPECT_EQ(
      Matched({"head", "10.0.0.2", "b"},
              {{"head", "1", "10.1.0.1"}, {"10.0.0.2", "2", "10.1.0.2"}, {"b", "3", "x"}}, nodes),
      (Words{"1", "2", "3"}));
}

TEST(RayMembersTest, NodesThatShareAnAddressAreToldApart) {
  const std::vector<RayNode> nodes = {Node("1", "127.0.0.1", true), Node("2", "127.0.0.1")};
  EXPECT_EQ(Matched({"127.0.0.1", "localhost"}, {{"localhost", "2", "127.0.0.1"}}, nodes),
            (Words{"1", "2"}));
  EXPECT_EQ(Matched({"localhost", "127.0.0.1"}, {}, nodes), (Words{"1", "2"}));
}

TEST(RayMembersTest, ARayThatWasStartedAnewIsKnownByItsAddress) {
  const std::vector<RayNode> nodes = {Node("new", "10.1.0.1", true), Node("newer", "10.1.0.2")};
  EXPECT_EQ(
      Matched({"a", "b", "c"},
              {{"a", "old", "10.1.0.1"}, {"b", "older", "10.1.0.2"}, {"c", "", "10.1.0.2"}}, nodes),
      (Words{"new", "newer", "-"}));
}

TEST(RayMembersTest, AMachineThatIsDeadIsDeadUnderEveryName) {
  ClusterView view;
  view.machines = {"head", "b"};
  view.members = {{"b", "2", "10.1.0.2"}};
  view.cluster.nodes = {Node("1", "10.1.0.1", true)};
  view.lost = {{.id = "2", .ip = "10.1.0.2", .why = "it fell"}};
  const std::vector<ClusterMachine> machines = MachinesOf(view);
  ASSERT_EQ(machines.size(), 2U);
  EXPECT_EQ(machines[0].state, "alive");
  EXPECT_EQ(machines[1].state, "dead");
  EXPECT_EQ(machines[1].why, "it fell");
}

TEST(RayMembersTest, LinesAreReadBackAndOthersAreNone) {
  const RayMember member{"h2", "0f", "10.0.0.2"};
  EXPECT_EQ(ParseRayMember("h2 0f 10.0.0.2"), member);
  for (const auto* line : {"", "h2", "h2 0f", "h2 0f 10.0.0.2 more"}) {
    EXPECT_FALSE(ParseRayMember(line).has_value()) << line;
  }
}

}  // namespace
}  // namespace hvdray
