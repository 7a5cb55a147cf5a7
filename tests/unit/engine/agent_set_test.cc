// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/agent_set.h"

#include <gtest/gtest.h>

#include "tests/fakes/fake_transport.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

const auto* const kCatalogue = FaultCatalogue::Install("tests/golden/messages/engine.txt");

class AgentSetTest : public testing::Test, public AgentSet::Owner {
 protected:
  AgentSetTest() : loop_(std::move(*Loop::Create())), transport_(*loop_) {
    transport_.on_agent = [this](const std::string&, FakeAgent& agent) {
      if (greets_) agent.SayHello();
    };
  }

  AgentSet& Make(std::vector<std::string> hosts) {
    wire::Welcome welcome;
    welcome.job_id = "job";
    welcome.heartbeat_timeout_ms = heartbeat_timeout_ms_;
    agents_ = std::make_unique<AgentSet>(*loop_, transport_, std::move(hosts), "test",
                                         std::move(welcome), *this);
    return *agents_;
  }

  void OnReady(int host, const wire::HostFacts& /*facts*/) override {
    ready_.push_back(host);
    if (on_ready_) on_ready_(host);
  }
  void OnLost(int host, Status why) override {
    lost_.emplace_back(host, std::move(why));
    loop_->Stop();
  }
  void OnMessage(int host, wire::Message&& message) override {
    messages_.emplace_back(host, std::move(message));
    loop_->Stop();
  }

  std::unique_ptr<Loop> loop_;
  FakeTransport transport_;
  std::unique_ptr<AgentSet> agents_;
  bool greets_ = true;
  uint32_t heartbeat_timeout_ms_ = 60'000;
  std::vector<int> ready_;
  std::vector<std::pair<int, Status>> lost_;
  std::vector<std::pair<int, wire::Message>> messages_;
  std::function<void(int)> on_ready_;
};

TEST_F(AgentSetTest, GreetsEachAgentWithItsOwnHostName) {
  AgentSet& agents = Make({"a", "b"});
  on_ready_ = [this](int) {
    if (ready_.size() == 2) {
      transport_.agents["b"]->Send(1, wire::WorkerStarted{3, 77});
    }
  };
  agents.StartAll();
  loop_->Run();
  EXPECT_EQ(ready_.size(), 2U);
  ASSERT_EQ(messages_.size(), 1U);
  EXPECT_EQ(messages_[0].first, 1);
  for (const char* host : {"a", "b"}) {
    const auto welcomes = transport_.agents[host]->All<wire::Welcome>();
    ASSERT_EQ(welcomes.size(), 1U);
    EXPECT_EQ(welcomes[0].host, host);
    EXPECT_EQ(welcomes[0].job_id, "job");
  }
}

TEST_F(AgentSetTest, AnAgentThatCannotBeStartedIsLostOnceWithItsHost) {
  transport_.failures.emplace("b", Status(ErrorCode::kAgentStartFailed, "no such file"));
  AgentSet& agents = Make({"a", "b"});
  agents.StartAll();
  loop_->Run();
  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_EQ(lost_[0].first, 1);
  EXPECT_EQ(lost_[0].second.code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(lost_[0].second.message().find("host b"), std::string::npos);
  EXPECT_FALSE(agents.IsReady(1));
  agents.Send(1, {1, wire::KvReset{}});  // not ready: dropped
}

TEST_F(AgentSetTest, AnAgentWithoutTheVersionThatIsRequiredIsLost) {
  greets_ = false;
  transport_.on_agent = [](const std::string&, FakeAgent& agent) {
    agent.SayHello({}, wire::kChannelVersion - 1);
  };
  AgentSet& agents = Make({"a"});
  agents.RequireVersion(wire::kChannelVersion);
  agents.StartAll();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return lost_.size() == 1; }));
  ExpectError(lost_[0].second, ErrorCode::kProtocolMismatch,
              {"host a: 'test' here and 'fake' there", "2 to 2, 1 to 1"});
  EXPECT_TRUE(ready_.empty());
  EXPECT_TRUE(RunUntil(*loop_, [this] { return !transport_.agents["a"]->closed.empty(); }));
  EXPECT_EQ(transport_.agents["a"]->closed[0].code(), ErrorCode::kProtocolMismatch);
}

TEST_F(AgentSetTest, ALostLinkIsExplainedByHowTheAgentEnded) {
  AgentSet& agents = Make({"a"});
  on_ready_ = [this](int) {
    loop_->Post([this] {
      transport_.agents["a"]->Vanish();
      transport_.Exit("a", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
    });
  };
  agents.StartAll();
  loop_->Run();
  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_EQ(lost_[0].second.code(), ErrorCode::kAgentLost);
  EXPECT_NE(lost_[0].second.hint().find("--heartbeat-timeout"), std::string::npos);
}

TEST_F(AgentSetTest, NothingIsKeptOfTheCarrierOfALostAgent) {
  for (const bool ends_first : {true, false}) {
    AgentSet& agents = Make({"a"});
    on_ready_ = [&](int) {
      loop_->Post([&] {
        const Status killed(ErrorCode::kAgentLost, "agent was killed by SIGKILL");
        if (ends_first) transport_.Exit("a", killed);
        transport_.agents["a"]->Vanish();
        if (!ends_first) transport_.Exit("a", killed);
      });
    };
    agents.StartAll();
    loop_->Run();
    loop_->Post([this] { loop_->Stop(); });
    loop_->Run();
    EXPECT_EQ(transport_.carriers, 0) << ends_first;
  }
}

TEST_F(AgentSetTest, ALinkThatClosesBehindItsCarrierIsExplainedByThatToo) {
  AgentSet& agents = Make({"a"});
  on_ready_ = [this](int) {
    loop_->Post([this] {
      transport_.Exit("a", Status(ErrorCode::kAgentLost, "agent was killed by SIGKILL"));
      transport_.agents["a"]->Vanish();
    });
  };
  agents.StartAll();
  loop_->Run();
  ASSERT_EQ(lost_.size(), 1U);
  ExpectError(lost_[0].second, ErrorCode::kAgentLost, {"host a", "SIGKILL"});
}

TEST_F(AgentSetTest, ASilentAgentIsLostForItsSilenceAtOnceWhateverBecomesOfItsCarrier) {
  heartbeat_timeout_ms_ = 50;
  Make({"a"}).StartAll();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ready_.size() == 1; }));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !transport_.agents["a"]->closed.empty(); }));
  transport_.Exit("a", Status(ErrorCode::kAgentLost, "agent ended since its link did"));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return lost_.size() == 1; }));
  EXPECT_TRUE(lost_[0].second.message().starts_with("host a: silent for "));
}

TEST_F(AgentSetTest, CloseDoesNotWaitLongForTheCarrierOfALostAgent) {
  heartbeat_timeout_ms_ = 50;
  AgentSet& agents = Make({"a"});
  agents.StartAll();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return lost_.size() == 1; }));
  const TimePoint began = loop_->Now();
  bool is_done = false;
  agents.Close(std::chrono::minutes(10), [&] { is_done = true; });
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_done; }));
  EXPECT_LT(loop_->Now() - began, std::chrono::minutes(1));
}

TEST_F(AgentSetTest, AnAgentThatEndsBeforeItSpeaksDidNotStart) {
  greets_ = false;
  AgentSet& agents = Make({"a"});
  transport_.on_agent = [this](const std::string&, FakeAgent&) {
    transport_.Exit("a", Status(ErrorCode::kAgentLost, "agent exited with code 127"));
  };
  agents.StartAll();
  loop_->Run();
  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_EQ(lost_[0].second.code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(lost_[0].second.message().find("127"), std::string::npos);
}

TEST_F(AgentSetTest, CloseSaysByeAndWaitsForTheCarriers) {
  AgentSet& agents = Make({"a", "b"});
  bool is_done = false;
  on_ready_ = [&](int) {
    if (ready_.size() < 2) return;
    loop_->Post([&] {
      agents.Close(std::chrono::seconds(20), [&] {
        is_done = true;
        loop_->Stop();
      });
      EXPECT_FALSE(is_done);
      transport_.Exit("a", Status());
      loop_->Post([&] {
        EXPECT_FALSE(is_done);
        transport_.Exit("b", Status());
      });
    });
  };
  agents.StartAll();
  loop_->Run();
  EXPECT_TRUE(is_done);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(AgentSetTest, CloseGivesUpAtItsLimit) {
  AgentSet& agents = Make({"a"});
  bool is_done = false;
  on_ready_ = [&](int) {
    loop_->Post([&] {
      agents.Close(std::chrono::milliseconds(20), [&] {
        is_done = true;
        loop_->Stop();
      });
    });
  };
  agents.StartAll();
  loop_->Run();
  EXPECT_TRUE(is_done);
}

TEST_F(AgentSetTest, ARejectedAgentIsToldWhyAndLost) {
  AgentSet& agents = Make({"a"});
  on_ready_ = [&](int host) {
    agents.Reject(host, {ErrorCode::kProtocolError, "Output: rank 9 is not on this host"});
    agents.Reject(host, {ErrorCode::kProtocolError, "said once"});
  };
  agents.StartAll();
  loop_->Run();
  ASSERT_EQ(lost_.size(), 1U);
  EXPECT_EQ(lost_[0].second.code(), ErrorCode::kProtocolError);
  const Watch limit = loop_->Every(std::chrono::milliseconds(1), [&] {
    if (!transport_.agents["a"]->closed.empty()) loop_->Stop();
  });
  loop_->Run();
  EXPECT_EQ(transport_.agents["a"]->closed[0].code(), ErrorCode::kProtocolError);
  EXPECT_NE(transport_.agents["a"]->closed[0].message().find("rank 9"), std::string::npos);
}

TEST_F(AgentSetTest, AHostThatIsAddedLaterGetsANumberOfItsOwnAndIsGreeted) {
  AgentSet& agents = Make({"a"});
  agents.StartAll();
  on_ready_ = [this](int) { loop_->Stop(); };
  loop_->Run();
  const int second = agents.Add("b");
  EXPECT_EQ(second, 1);
  EXPECT_FALSE(agents.IsReady(second));
  agents.Start(second);
  loop_->Run();
  EXPECT_EQ(ready_, (std::vector<int>{0, 1}));
  EXPECT_TRUE(agents.IsReady(second));
  EXPECT_TRUE(
      RunUntil(*loop_, [&] { return transport_.agents["b"]->All<wire::Welcome>().size() == 1; }));
  EXPECT_EQ(transport_.agents["b"]->All<wire::Welcome>()[0].host, "b");
}

TEST_F(AgentSetTest, AHostThatIsReleasedGetsAByeAndIsNotHeardAnyMore) {
  AgentSet& agents = Make({"a", "b"});
  agents.StartAll();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ready_.size() == 2; }));
  agents.Release(0);
  agents.Release(0);
  EXPECT_FALSE(agents.IsReady(0));
  agents.Send(0, {1, wire::KvReset{}});
  transport_.agents["a"]->Send(1, wire::WorkerStarted{3, 77});
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !transport_.agents["a"]->closed.empty(); }));
  EXPECT_TRUE(transport_.agents["a"]->closed[0].ok()) << "in order";
  EXPECT_TRUE(transport_.agents["a"]->All<wire::KvReset>().empty());
  transport_.agents["a"]->Vanish();
  transport_.Exit("a", Status());
  Settle(*loop_);
  EXPECT_TRUE(messages_.empty());
  EXPECT_TRUE(lost_.empty());
  agents.SendAll({1, wire::KvReset{}});
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    return transport_.agents["b"]->All<wire::KvReset>().size() == 1;
  })) << "the other one is served on";
}

TEST_F(AgentSetTest, AHostThatIsReleasedBeforeItSpokeIsNeverReadyNorLost) {
  greets_ = false;
  AgentSet& agents = Make({"a", "b"});
  agents.Start(0);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return transport_.agents.contains("a"); }));
  agents.Release(0);
  transport_.agents["a"]->SayHello();
  agents.Start(1);
  agents.Release(1);  // it has no carrier yet
  ASSERT_TRUE(RunUntil(*loop_, [&] {
    return transport_.agents.contains("b") && !transport_.agents["a"]->closed.empty() &&
           !transport_.agents["b"]->closed.empty();
  })) << "their lifelines are cut";
  transport_.Exit("a", Status(ErrorCode::kAgentLost, "agent was killed"));
  transport_.Exit("b", Status(ErrorCode::kAgentLost, "agent was killed"));
  Settle(*loop_);
  EXPECT_TRUE(ready_.empty());
  EXPECT_TRUE(lost_.empty());
}

TEST_F(AgentSetTest, AReleasedHostThatCannotBeStartedIsNoLoss) {
  transport_.failures.emplace("a", Status(ErrorCode::kAgentStartFailed, "no such file"));
  AgentSet& agents = Make({"a"});
  agents.Start(0);
  agents.Release(0);
  Settle(*loop_);
  EXPECT_TRUE(lost_.empty());
}

TEST_F(AgentSetTest, CloseWaitsForTheCarriersOfReleasedHostsToo) {
  AgentSet& agents = Make({"a"});
  agents.StartAll();
  ASSERT_TRUE(RunUntil(*loop_, [&] { return ready_.size() == 1; }));
  agents.Release(0);
  bool is_done = false;
  agents.Close(std::chrono::seconds(20), [&] { is_done = true; });
  ASSERT_TRUE(RunUntil(*loop_, [&] { return !transport_.agents["a"]->closed.empty(); }));
  Settle(*loop_);
  EXPECT_FALSE(is_done);
  transport_.agents["a"]->Vanish();
  transport_.Exit("a", Status());
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_done; }));
}

}  // namespace
}  // namespace hvdray
