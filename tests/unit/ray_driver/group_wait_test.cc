// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/group_wait.h"

#include <gtest/gtest.h>

#include "tests/fakes/fault_catalogue.h"
#include "tests/unit/ray_driver/ray_cluster.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/ray_driver.txt");

using std::chrono::milliseconds;
using std::chrono::seconds;
using State = GroupWait::State;

RayRequest TwoSlots() {
  return {.bundles = {{{"CPU", 1}}, {{"CPU", 1}}},
          .slots = {1, 1},
          .selectors = {},
          .strategy = "PACK"};
}

class GroupWaitTest : public testing::Test {
 protected:
  GroupWait Wait(bool can_grow = true) { return {TwoSlots(), seconds(100), can_grow, began_}; }
  const TimePoint began_ = TimePoint(seconds(1000));
};

TEST_F(GroupWaitTest, AGroupIsThereWhenEachBundleIsOnALiveNodeThatIsKnown) {
  GroupWait wait = Wait();
  wait.OnGroup(Created("g", {"a", "b"}), began_);
  EXPECT_EQ(wait.Look(began_), State::kWaiting) << "where is b?";
  wait.OnNodes({Node("a", "10.0.0.1", 2, 1), Dead(Node("b", "10.0.0.2", 2, 2))});
  EXPECT_EQ(wait.Look(began_), State::kWaiting);
  wait.OnNodes({Node("a", "10.0.0.1", 2, 1), Node("b", "10.0.0.2", 2, 2)});
  EXPECT_EQ(wait.Look(began_), State::kCreated);
}

TEST_F(GroupWaitTest, AGroupThatLosesABundleIsWaitedForAgain) {
  GroupWait wait = Wait();
  wait.OnNodes({Node("a", "10.0.0.1", 2, 1)});
  wait.OnGroup(Created("g", {"a", "a"}), began_);
  ASSERT_EQ(wait.Look(began_), State::kCreated);
  wait.OnGroup({.name = "g", .state = BrokerGroupState::kRescheduling, .bundles = {"a", ""}},
               began_);
  EXPECT_EQ(wait.Look(began_), State::kWaiting);
}

TEST_F(GroupWaitTest, TheLimitEndsTheWaitAndSaysWhatIsMissing) {
  GroupWait wait = Wait();
  wait.OnNodes({Node("a", "10.0.0.1", 2, 1)});
  wait.OnGroup(Pending("g", "NO_RESOURCES", 2), began_);
  EXPECT_EQ(wait.Look(began_ + seconds(100) - milliseconds(1)), State::kWaiting);
  const TimePoint late = began_ + seconds(100);
  EXPECT_EQ(wait.Look(late), State::kFailed);
  const Status why = wait.failure(late);
  ExpectError(
      why, ErrorCode::kNoCapacity,
      {"placement group", "100 s", "2 slots of 1 CPU", "1 live node", "1 now", "NO_RESOURCES"});
}

TEST_F(GroupWaitTest, ALineIsDueAfterASecondAndThenEveryTen) {
  GroupWait wait = Wait();
  EXPECT_EQ(wait.TakeLine(began_), std::nullopt);
  EXPECT_EQ(wait.NextDeadline(), began_ + seconds(1));
  ExpectSays(wait.TakeLine(began_ + seconds(1)).value_or(""),
             {"placement group", "1 s", "2 bundles of 1 CPU"});
  EXPECT_EQ(wait.TakeLine(began_ + seconds(2)), std::nullopt);
  EXPECT_EQ(wait.NextDeadline(), began_ + seconds(11));
  EXPECT_TRUE(wait.TakeLine(began_ + seconds(11)).has_value());
}

TEST_F(GroupWaitTest, WhatCannotBeFailsFastUnlessNodesMayCome) {
  for (const bool can_grow : {true, false}) {
    GroupWait wait = Wait(can_grow);
    wait.OnNodes({Node("a", "10.0.0.1", 0.5, 0.5)});
    wait.OnGroup(Pending("g", "INFEASIBLE", 2), began_);
    EXPECT_EQ(wait.Look(began_ + seconds(1)), State::kWaiting) << "a node may be about to come";
    const TimePoint later = began_ + seconds(2);
    EXPECT_EQ(wait.Look(later), can_grow ? State::kWaiting : State::kFailed);
    if (can_grow) continue;
    EXPECT_LE(wait.NextDeadline(), later);
    EXPECT_EQ(wait.failure(later).code(), ErrorCode::kInfeasible);
    // A node did come.
    wait.OnGroup(Pending("g", "NO_RESOURCES", 2), later);
    EXPECT_EQ(wait.Look(later), State::kWaiting);
  }
}

TEST_F(GroupWaitTest, RaysOwnRefusalIsTold) {
  GroupWait wait = Wait();
  wait.OnGroup({.name = "g", .state = BrokerGroupState::kFailed, .text = "ValueError: x"}, began_);
  EXPECT_EQ(wait.Look(began_), State::kFailed);
  ExpectError(wait.failure(began_), ErrorCode::kRayFailed, {"placement group", "ValueError: x"});
  wait.OnGroup({.name = "g", .state = BrokerGroupState::kRemoved}, began_);
  EXPECT_EQ(wait.Look(began_), State::kFailed);
  EXPECT_EQ(wait.failure(began_).code(), ErrorCode::kRayFailed);
}

TEST_F(GroupWaitTest, AGroupThatIsThereAndHasNoRoomIsNoFailureOfRay) {
  GroupWait wait = Wait();
  wait.OnGroup({.name = "g",
                .state = BrokerGroupState::kFailed,
                .reason = "INFEASIBLE",
                .text = "room for 1 worker"},
               began_);
  EXPECT_EQ(wait.Look(began_), State::kFailed);
  EXPECT_EQ(wait.failure(began_), Status(ErrorCode::kInfeasible, "room for 1 worker"));
}

TEST_F(GroupWaitTest, AnotherGroupOfTheSameSlotsMayHaveFewerBundles) {
  GroupWait wait = Wait(/*can_grow=*/false);
  wait.OnNodes({Node("a", "10.0.0.1", 2, 2)});
  wait.OnGroup(Pending("g", "INFEASIBLE", 2), began_);
  wait.Expect(1);
  EXPECT_EQ(wait.Look(began_ + seconds(10)), State::kWaiting) << "that was the other group";
  wait.OnGroup(Created("h", {"a"}), began_);
  EXPECT_EQ(wait.Look(began_), State::kCreated);
}

}  // namespace
}  // namespace hvdray
