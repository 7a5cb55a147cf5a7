// SPDX-License-Identifier: Apache-2.0
// The hosts of a fixed job: each is awaited, then ready or lost, once.
#include "launcher/engine/fixed_agents.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>

#include "tests/fakes/fake_transport.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

class FixedAgentsTest : public testing::Test,
                        public FixedAgents::Owner,
                        public JobAgents::Listener {
 protected:
  FixedAgentsTest() {
    plan_.hosts = {{"a", 1}, {"b", 1}, {"c", 1}};
    plan_.is_remote = {false, true, false};
    plan_.build = "test";
    plan_.spec.start_timeout.Set(std::chrono::milliseconds(300), "test");
    transport_.on_agent = [this](const std::string& host, FakeAgent& agent) {
      if (host != silent_) agent.SayHello();
    };
  }
  FixedAgents& Start() {
    agents_.emplace(*loop_, transport_, trace_, plan_, *this, *this);
    agents_->links().StartAll();
    return *agents_;
  }

  void Feed(Event /*fact*/) override {}
  void OnReady(int host, const wire::HostFacts& /*facts*/) override { ++ready_[host]; }
  void OnLost(int host, Status why) override {
    ++lost_[host];
    why_ = std::move(why);
  }
  void OnMessage(int /*host*/, wire::Message&& /*message*/) override {}
  void OnMayStart() override {}
  void OnOutputRoom() override {}
  void OnNoise(std::string_view /*line*/) override {}

  std::unique_ptr<Loop> loop_ = Loop::Create().value();
  FakeTransport transport_{*loop_};
  Trace trace_{TimePoint(), {}, false};
  LaunchPlan plan_;
  std::string silent_;
  std::map<int, int> ready_;
  std::map<int, int> lost_;
  Status why_;
  std::optional<FixedAgents> agents_;
};

TEST_F(FixedAgentsTest, AllAreReadyOnceEachHasSaidHello) {
  FixedAgents& agents = Start();
  EXPECT_FALSE(agents.AreAllReady());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agents.AreAllReady(); }));
  EXPECT_EQ(ready_, (std::map<int, int>{{0, 1}, {1, 1}, {2, 1}}));
  EXPECT_TRUE(agents.HasObjectRoom());
  EXPECT_TRUE(agents.CheckNoneLost().ok());
}

TEST_F(FixedAgentsTest, AnObjectWaitsForAHostNoLongerThanTheStartTimeout) {
  silent_ = "c";
  FixedAgents& agents = Start();
  EXPECT_FALSE(agents.HasObjectRoom());
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !lost_.empty(); }));
  EXPECT_EQ(ready_, (std::map<int, int>{{0, 1}, {1, 1}}));
  EXPECT_EQ(lost_, (std::map<int, int>{{2, 1}}));
  EXPECT_EQ(why_.code(), ErrorCode::kConnectTimeout);
  EXPECT_TRUE(agents.HasObjectRoom()) << "the others take it";
  EXPECT_FALSE(agents.AreAllReady());
}

TEST_F(FixedAgentsTest, AfterALossNothingStartsAnyMore) {
  FixedAgents& agents = Start();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agents.AreAllReady(); }));
  agents.links().Reject(0, {ErrorCode::kProtocolError, "no"});
  agents.links().Reject(1, {ErrorCode::kProtocolError, "no"});
  EXPECT_EQ(lost_, (std::map<int, int>{{0, 1}, {1, 1}}));
  const Status status = agents.CheckNoneLost();
  EXPECT_EQ(status.code(), ErrorCode::kAgentLost);
  EXPECT_NE(status.message().find("host a"), std::string::npos) << status.ToString();
  EXPECT_EQ(agents.lost_here().size(), 1U) << "b is another machine";
}

}  // namespace
}  // namespace hvdray
