// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/fake_endpoint_listener.h"
#include "tests/fakes/fake_stream.h"
#include "tests/fakes/fault_catalogue.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

class RayTransportTest : public testing::Test {
 protected:
  RayTransportTest() : loop_(std::move(*Loop::Create())) {
    auto [stream, wire] = FakeWire::Make();
    python_ = wire;
    broker_ = std::make_unique<RayBroker>(std::move(stream), RayBroker::Handlers{});
    RayTransportOptions options;
    options.dial = "10.0.0.1:4711";
    options.key_line = "of-the-job";
    options.agent_words = {"--keep-ray-env"};
    options.on_endpoint = [this](const std::string& host, bool is_live) {
      endpoints_.push_back(host + (is_live ? " live" : " idle"));
    };
    transport_ = std::make_unique<RayTransport>(*loop_, *broker_, listener_, std::move(options));
  }

  void Start(const std::string& host) {
    transport_->Start(host, [this](Result<AgentStart> start) {
      if (start.ok()) {
        start->process->OnExit([this](const Status& how) { exits_.push_back(how.message()); });
        agents_.push_back(std::move(start).value());
      } else {
        failures_.push_back(start.status());
      }
    });
    Settle(*loop_);
  }
  std::shared_ptr<FakeWire> Arrive(int endpoint) {
    auto [stream, wire] = FakeWire::Make();
    listener_.Arrive(endpoint, std::move(stream));
    return wire;
  }

  std::unique_ptr<Loop> loop_;
  std::shared_ptr<FakeWire> python_;
  std::unique_ptr<RayBroker> broker_;
  FakeEndpointListener listener_;
  std::unique_ptr<RayTransport> transport_;
  std::vector<AgentStart> agents_;
  std::vector<Status> failures_;
  std::vector<std::string> exits_;
  std::vector<std::string> endpoints_;
};

TEST_F(RayTransportTest, AnAgentIsPlacedInTheBundlesOfItsHostAndComesInByItsEndpoint) {
  transport_->Place("a", {"group", {1, 3}});
  Start("a");
  EXPECT_EQ(
      python_->TakeSent(),
      R"({"endpoint":{"endpoint":0,"name":"group","bundles":[1,3],"argv":[".hvdray/hvdray-agent",)"
      R"("--dial","10.0.0.1:4711","--endpoint","0","--gpus","@gpus",)"
      R"("--python","@python","--raylet","@raylet",)"
      R"("--keep-ray-env"],"stdin":"of-the-job"}})"
      "\n");
  ASSERT_TRUE(listener_.expected.contains(0));
  EXPECT_TRUE(agents_.empty());
  transport_->OnEndpointStarted({.endpoint = 0});
  const std::shared_ptr<FakeWire> wire = Arrive(0);
  ASSERT_EQ(agents_.size(), 1U);
  agents_[0].stream->Write("hello");
  EXPECT_EQ(wire->TakeSent(), "hello");
  EXPECT_EQ(endpoints_, std::vector<std::string>{"a live"});
}

TEST_F(RayTransportTest, AEndpointThatEndsBeforeItsAgentCameIsAFailedStart) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  transport_->OnEndpointEnded({0, "RuntimeEnvSetupError: no"});
  ASSERT_EQ(failures_.size(), 1U);
  ExpectError(failures_[0], ErrorCode::kAgentStartFailed,
              {"agent on a: ", "RuntimeEnvSetupError: no"});
  EXPECT_TRUE(listener_.expected.empty());
  EXPECT_EQ(endpoints_, (std::vector<std::string>{"a live", "a idle"}));
}

TEST_F(RayTransportTest, AnActorThatRayItselfLostIsWorthAnotherTry) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  transport_->OnEndpointEnded({0, "ActorDiedError: its node has died"});
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_EQ(failures_[0].code(), ErrorCode::kRayFailed);
}

TEST_F(RayTransportTest, AnAgentIsNotLetInBeforeItsNodeIsKnownToBeTheRightOne) {
  transport_->Place("a", {"group", {0}, "n1"});
  transport_->Place("b", {"group", {1}, "n2"});
  Start("a");
  Start("b");
  Arrive(0);
  EXPECT_TRUE(agents_.empty());
  transport_->OnEndpointStarted({.endpoint = 0, .node_id = "n1"});
  EXPECT_EQ(agents_.size(), 1U);
  const std::shared_ptr<FakeWire> wire = Arrive(1);
  python_->TakeSent();
  transport_->OnEndpointStarted({.endpoint = 1, .node_id = "n3", .ip = "10.0.0.3"});
  ASSERT_EQ(failures_.size(), 1U);
  ExpectError(failures_[0], ErrorCode::kRayFailed, {"agent on b: ", "moved", "10.0.0.3"});
  EXPECT_TRUE(wire->is_destroyed());
  EXPECT_EQ(python_->TakeSent(), "{\"close_endpoint\":{\"endpoint\":1}}\n");
}

TEST_F(RayTransportTest, WhoseSlotsAreGoneBeforeItsAgentCameIsLost) {
  transport_->Place("a", {"group", {0}, "n1"});
  transport_->Place("b", {"group", {1, 2}, "n2"});
  Start("a");
  Start("b");
  transport_->OnGroup({.name = "group", .bundles = {"n1", "n2", "n2"}});
  transport_->OnGroup({.name = "another", .bundles = {}});
  EXPECT_TRUE(failures_.empty());
  transport_->OnGroup({.name = "group", .bundles = {"n1", "n2", ""}});
  ASSERT_EQ(failures_.size(), 1U);
  ExpectError(failures_[0], ErrorCode::kRayFailed, {"agent on b: ", "lost the node"});
  EXPECT_EQ(transport_->next_endpoint(), 2);
}

TEST_F(RayTransportTest, AEndpointThatEndsLaterIsTheEndOfTheCarrier) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  Arrive(0);
  transport_->OnEndpointEnded({0, "the agent ended: signal 9"});
  EXPECT_EQ(exits_, std::vector<std::string>{"the agent ended: signal 9"});
  EXPECT_TRUE(failures_.empty());
  transport_->OnEndpointEnded({0, "again"});
  transport_->OnEndpointEnded({77, "of nobody"});
  EXPECT_EQ(exits_.size(), 1U);
}

TEST_F(RayTransportTest, OfRaysWordForADeadActorTheReasonIsKept) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  Arrive(0);
  transport_->OnEndpointEnded(
      {0,
       "ActorDiedError: The actor died unexpectedly. class_name: Endpoint pid: 7 The actor died "
       "because its node has died."});
  EXPECT_EQ(exits_, std::vector<std::string>{"The actor died because its node has died."});
}

TEST_F(RayTransportTest, WhoAsksLateHowItEndedIsToldToo) {
  transport_->Place("a", {"group", {0}});
  AgentStart agent;
  transport_->Start("a", [&agent](Result<AgentStart> start) { agent = std::move(*start); });
  Settle(*loop_);
  Arrive(0);
  transport_->OnEndpointEnded({0, ""});
  std::string how;
  agent.process->OnExit([&how](const Status& status) { how = status.message(); });
  EXPECT_TRUE(how.empty());
  Settle(*loop_);
  EXPECT_EQ(how, "its actor has ended");
}

TEST_F(RayTransportTest, ASecondStartEndsTheFirstEndpointAndTakesAnotherNumber) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  Arrive(0);
  python_->TakeSent();
  Start("a");
  const std::string sent = python_->TakeSent();
  EXPECT_TRUE(
      sent.starts_with("{\"close_endpoint\":{\"endpoint\":0}}\n{\"endpoint\":{\"endpoint\":1,"))
      << sent;
  transport_->OnEndpointEnded({0, "it was asked to end"});
  EXPECT_EQ(endpoints_, (std::vector<std::string>{"a live", "a live"})) << "the second one lives";
  Arrive(1);
  EXPECT_EQ(agents_.size(), 2U);
}

TEST_F(RayTransportTest, AHostWithoutAPlaceCannotBeStarted) {
  Start("a");
  ASSERT_EQ(failures_.size(), 1U);
  ExpectSays(failures_[0].message(), {"agent on a: ", "away"});
  transport_->Place("a", {"group", {0}});
  Start("a");
  Arrive(0);
  python_->TakeSent();
  transport_->Remove("a");
  EXPECT_EQ(python_->TakeSent(), "{\"close_endpoint\":{\"endpoint\":0}}\n");
  Start("a");
  EXPECT_EQ(failures_.size(), 2U);
}

TEST_F(RayTransportTest, AnAgentThatNobodyListensToAnyMoreIsIdleAndEndedInTheEnd) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  const std::shared_ptr<FakeWire> wire = Arrive(0);
  python_->TakeSent();
  agents_[0].stream.reset();
  EXPECT_TRUE(wire->is_destroyed());
  Settle(*loop_);
  EXPECT_EQ(endpoints_, std::vector<std::string>{"a live"})
      << "the loss itself is to be known first";
  ASSERT_TRUE(RunUntil(*loop_, [this] { return endpoints_.size() == 2; }));
  EXPECT_EQ(endpoints_.back(), "a idle");
  EXPECT_TRUE(python_->TakeSent().empty()) << "it may end by itself first";
  transport_->OnEndpointEnded({0, "the agent ended: exit code 0"});
  EXPECT_EQ(endpoints_.size(), 2U) << "said already";
}

TEST_F(RayTransportTest, StreamsMayOutliveIt) {
  transport_->Place("a", {"group", {0}});
  Start("a");
  Arrive(0);
  Start("b");
  transport_.reset();
  EXPECT_TRUE(listener_.expected.empty());
  agents_.clear();
  Settle(*loop_);
}

}  // namespace
}  // namespace hvdray
