// SPDX-License-Identifier: Apache-2.0
#include "tests/fakes/fake_provider.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

CreateRequest Request(ClusterNodeKind kind, int count, const std::string& id) {
  CreateRequest request;
  request.node = {.node_type = "t", .kind = kind, .launch_hash = "h"};
  request.count = count;
  request.request_id = id;
  return request;
}

TEST(FakeProviderTest, MachinesStartRunAndEnd) {
  FakeProvider cloud("c", {});
  cloud.SetAddresses({"10.0.0.1"});
  ASSERT_EQ(cloud.Create(Request(ClusterNodeKind::kWorker, 1, "w"))->nodes.size(), 1U);
  ASSERT_EQ(cloud.Create(Request(ClusterNodeKind::kHead, 1, "h"))->nodes.size(), 1U);
  EXPECT_EQ(cloud.List()->at(0).state, CloudState::kPending);
  const auto nodes = *cloud.List();
  EXPECT_EQ(nodes.at(0).kind, ClusterNodeKind::kHead);
  EXPECT_EQ(nodes.at(0).state, CloudState::kRunning);
  EXPECT_EQ(nodes.at(1).internal_address, "10.0.0.1");
  ASSERT_TRUE(cloud.Remove({nodes[0].id, nodes[1].id, "i-none"}, RemoveMode::kAsConfigured).ok());
  EXPECT_EQ(cloud.List()->at(0).state, CloudState::kEnding);
  EXPECT_TRUE(cloud.List()->empty());
}

TEST(FakeProviderTest, ARequestThatIsRepeatedMakesOnlyWhatIsMissing) {
  FakeProvider cloud("c", {});
  cloud.SetCapacity("t", 2);
  auto outcome = *cloud.Create(Request(ClusterNodeKind::kWorker, 3, "w"));
  EXPECT_EQ(outcome.nodes.size(), 2U);
  EXPECT_EQ(outcome.shortfall.code(), ErrorCode::kNoCapacity);
  cloud.SetCapacity("t", 3);
  EXPECT_EQ(cloud.Create(Request(ClusterNodeKind::kWorker, 3, "w"))->nodes.size(), 3U);
  EXPECT_EQ(cloud.created(), 3);
  cloud.Interrupt(outcome.nodes[0].id);
  EXPECT_EQ(cloud.List()->size(), 2U);
}

TEST(FakeProviderTest, StoppedMachinesAreStartedAgain) {
  FakeProvider cloud("c", {});
  cloud.KeepStopped();
  const auto outcome = *cloud.Create(Request(ClusterNodeKind::kWorker, 1, "w"));
  ASSERT_TRUE(cloud.Remove({outcome.nodes[0].id}, RemoveMode::kAsConfigured).ok());
  (void)cloud.List().ok();
  EXPECT_EQ(cloud.List()->at(0).state, CloudState::kStopped);
  EXPECT_EQ(cloud.StartStopped(Request(ClusterNodeKind::kWorker, 2, "x"))->nodes.size(), 1U);
  EXPECT_EQ(cloud.List()->at(0).state, CloudState::kPending);
}

TEST(FakeProviderTest, ResourcesAreMadeOnceAndPurgedWhenNothingUsesThem) {
  FakeProvider cloud("c", {});
  int told = 0;
  const auto count = [&told](const ProviderStep&) { ++told; };
  ASSERT_TRUE(cloud.Prepare(count).ok());
  ASSERT_TRUE(cloud.Prepare(count).ok());
  EXPECT_EQ(told, 1);
  const auto made = *cloud.Create(Request(ClusterNodeKind::kWorker, 1, "w"));
  EXPECT_EQ(cloud.Purge()->at(0).action, ProviderStep::Action::kKeep);
  cloud.Interrupt(made.nodes[0].id);
  EXPECT_EQ(cloud.Purge()->at(0).action, ProviderStep::Action::kDelete);
  EXPECT_TRUE(cloud.Purge()->empty());
}

TEST(FakeProviderTest, CallsFailOnOrderAndAfterCancel) {
  FakeProvider cloud("c", {});
  cloud.FailNext("List", {Status(ErrorCode::kCloudDenied, "no"), Status()});
  EXPECT_EQ(cloud.List().status().code(), ErrorCode::kCloudDenied);
  EXPECT_TRUE(cloud.List().ok());
  cloud.Cancel();
  EXPECT_EQ(cloud.Plan().status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(cloud.calls(), (std::vector<std::string>{"List", "List", "Plan"}));
}

}  // namespace
}  // namespace hvdray
