// Which node takes how many slots when each node's part is a Ray job of its own.
#include "cluster/ray/job_seats.h"

#include <gtest/gtest.h>

#include <utility>

namespace hvdray {
namespace {

RayNode Node(const std::string& id, const std::string& ip, double free_cpus, double free_gpus = 0) {
  return {.id = id,
          .ip = ip,
          .total = {{"CPU", 8}, {"GPU", 8}, {"node:" + ip, 1}},
          .free = {{"CPU", free_cpus}, {"GPU", free_gpus}, {"node:" + ip, 1}}};
}

RayRequest Made(const RayAsk& ask) {
  const Result<RayRequest> request = MakeRayRequest(ask);
  EXPECT_TRUE(request.ok()) << request.status().ToString();
  return request.ok() ? *request : RayRequest();
}

RayRequest Slots(int np, std::string strategy) {
  RayAsk ask;
  ask.np = np;
  ask.strategy = std::move(strategy);
  return Made(ask);
}

/// "a:2 b:1": node ids and slots.
std::string Text(const std::vector<RayJobSeat>& seats) {
  std::string text;
  for (const RayJobSeat& seat : seats) {
    text += (text.empty() ? "" : " ") + seat.node_id + ":" + std::to_string(seat.slots);
  }
  return text;
}

const std::vector<RayNode> kThree = {Node("a", "10.0.0.1", 2), Node("b", "10.0.0.2", 4),
                                     Node("c", "10.0.0.3", 3)};

TEST(JobSeatsTest, PackedSlotsTakeTheRoomiestNodesFirst) {
  EXPECT_EQ(Text(PlaceSeats(Slots(5, ""), kThree)), "b:4 c:1");
  EXPECT_EQ(Text(PlaceSeats(Slots(9, "PACK"), kThree)), "b:4 c:3 a:2");
  EXPECT_EQ(Text(PlaceSeats(Slots(10, "PACK"), kThree)), "");
}

TEST(JobSeatsTest, AmongEqualNodesTheFirstIsTaken) {
  const std::vector<RayNode> equal = {Node("a", "10.0.0.1", 2), Node("b", "10.0.0.2", 2)};
  EXPECT_EQ(Text(PlaceSeats(Slots(2, ""), equal)), "a:2");
  EXPECT_EQ(Text(PlaceSeats(Slots(3, "SPREAD"), equal)), "a:2 b:1");
}

TEST(JobSeatsTest, SpreadSlotsGoRoundAndPassOverWhoIsFull) {
  EXPECT_EQ(Text(PlaceSeats(Slots(2, "SPREAD"), kThree)), "a:1 b:1");
  EXPECT_EQ(Text(PlaceSeats(Slots(8, "SPREAD"), kThree)), "a:2 b:3 c:3");
  EXPECT_EQ(Text(PlaceSeats(Slots(10, "SPREAD"), kThree)), "");
}

TEST(JobSeatsTest, AllOnOneNodeTakesTheTightestThatHasRoom) {
  EXPECT_EQ(Text(PlaceSeats(Slots(3, "STRICT_PACK"), kThree)), "c:3");
  EXPECT_EQ(Text(PlaceSeats(Slots(4, "STRICT_PACK"), kThree)), "b:4");
  EXPECT_EQ(Text(PlaceSeats(Slots(5, "STRICT_PACK"), kThree)), "");
}

TEST(JobSeatsTest, ASlotForEachNodeNeedsAsManyNodes) {
  EXPECT_EQ(Text(PlaceSeats(Slots(3, "STRICT_SPREAD"), kThree)), "a:1 b:1 c:1");
  EXPECT_EQ(Text(PlaceSeats(Slots(4, "STRICT_SPREAD"), kThree)), "");
}

TEST(JobSeatsTest, HostsWithSlotsNeedThemOnOneNodeEach) {
  RayAsk ask;
  ask.np = 6;
  ask.num_hosts = 2;
  ask.slot_resources = {{"disk", 0.5}};
  std::vector<RayNode> nodes = kThree;
  EXPECT_EQ(Text(PlaceSeats(Made(ask), nodes)), "") << "no disk";
  for (RayNode& node : nodes) node.free["disk"] = 2;
  const std::vector<RayJobSeat> seats = PlaceSeats(Made(ask), nodes);
  EXPECT_EQ(Text(seats), "b:3 c:3");
  EXPECT_EQ(seats[0].amounts, (RayAmounts{{"CPU", 3}, {"disk", 1.5}}));
  EXPECT_EQ(seats[0].ip, "10.0.0.2");
}

TEST(JobSeatsTest, NamedHostsKeepTheirOrderAndAreNoResources) {
  RayAsk ask;
  ask.np = 5;
  ask.named = {{"10.0.0.3", 3}, {"10.0.0.1", 2}};
  const std::vector<RayJobSeat> seats = PlaceSeats(Made(ask), kThree);
  EXPECT_EQ(Text(seats), "c:3 a:2");
  EXPECT_EQ(seats[0].amounts, (RayAmounts{{"CPU", 3}}));
  EXPECT_EQ(seats[0].host, "10.0.0.3");
  ask.named = {{"10.0.0.3", 5}};
  EXPECT_TRUE(PlaceSeats(Made(ask), kThree).empty()) << "it has three";
}

TEST(JobSeatsTest, LabelsAndDeadNodesCount) {
  std::vector<RayNode> nodes = kThree;
  nodes[1].is_alive = false;
  nodes[2].labels = {{"zone", "x"}};
  EXPECT_EQ(Text(PlaceSeats(Slots(5, ""), nodes)), "c:3 a:2");
  RayAsk ask;
  ask.np = 2;
  ask.labels = {{"zone", "x"}};
  EXPECT_EQ(Text(PlaceSeats(Made(ask), nodes)), "c:2");
  ask.labels = {{"zone", "y"}};
  EXPECT_EQ(Text(PlaceSeats(Made(ask), nodes)), "");
}

TEST(JobSeatsTest, FreeGpusCountAndFractionsOfCpusAddUp) {
  const std::vector<RayNode> nodes = {Node("a", "10.0.0.1", 4, 1), Node("b", "10.0.0.2", 4, 3)};
  RayAsk ask;
  ask.np = 4;
  ask.cpus_per_slot = 0.5;
  ask.gpus_per_slot = 1;
  const std::vector<RayJobSeat> seats = PlaceSeats(Made(ask), nodes);
  EXPECT_EQ(Text(seats), "b:3 a:1");
  EXPECT_EQ(seats[0].amounts, (RayAmounts{{"CPU", 1.5}, {"GPU", 3}}));
}

TEST(JobSeatsTest, NodesAtOneAddressAreTwoHosts) {
  const std::vector<RayNode> nodes = {Node("aaaaaaaa11", "10.0.0.1", 2),
                                      Node("bbbbbbbb22", "10.0.0.1", 2)};
  const std::vector<RayJobSeat> seats = PlaceSeats(Slots(4, ""), nodes);
  ASSERT_EQ(seats.size(), 2U);
  EXPECT_EQ(seats[0].host, "10.0.0.1-aaaaaaaa");
  EXPECT_EQ(seats[1].host, "10.0.0.1-bbbbbbbb");
}

}  // namespace
}  // namespace hvdray
