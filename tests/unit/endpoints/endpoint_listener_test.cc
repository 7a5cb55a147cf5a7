// SPDX-License-Identifier: Apache-2.0
// One agent per agent endpoint, and no other peer gets in.
#include "cluster/transport/endpoint_listener.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/fakes/stream_owner.h"
#include "tests/unit/endpoints/endpoint_harness.h"

namespace hvdray {
namespace {

using EndpointListenerTest = EndpointTest;

TEST_F(EndpointListenerTest, AgentOfAnExpectedEndpointArrivesAndBothCanSpeak) {
  Listen();
  Expect(3);
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 3), agent);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agent && arrived_.contains(3); }));
  ASSERT_TRUE(agent->ok()) << agent->status().ToString();
  std::string got;
  StartStream(*arrived_.at(3).stream, {.on_data = [&](ByteView bytes) { got += bytes; }});
  StartStream(***agent, {});
  (**agent)->Write("HVDRAY-AGENT/1");
  EXPECT_TRUE(RunUntil(*loop_, [&] { return got == "HVDRAY-AGENT/1"; }));
  EXPECT_TRUE(arrived_.at(3).peer.ToString().starts_with("127.0.0.1:"));
  EXPECT_EQ(listener_->refusals().total(), 0u);
}

TEST_F(EndpointListenerTest, HundredAgentsAtOnceAllFindTheirEndpoints) {
  EndpointListenerOptions options;
  options.max_pending = 8;  // the others wait in the backlog
  options.handshake_limit = std::chrono::minutes(1);
  Listen(options);
  std::vector<Outcome> agents(100);
  std::vector<std::unique_ptr<EndpointDialler>> diallers;
  for (int i = 0; i < 100; ++i) {
    Expect(i);
    diallers.push_back(Dial(To({Door()}, i), agents[static_cast<size_t>(i)]));
  }
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.size() == 100; }));
  EXPECT_EQ(listener_->refusals().total(), 0u);
}

TEST_F(EndpointListenerTest, SecondAgentOfOneEndpointIsRefused) {
  Listen();
  Expect(0);
  Outcome first;
  const auto one = Dial(To({Door()}, 0), first);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return first && arrived_.contains(0); }));
  Outcome second;
  const auto two = Dial(To({Door()}, 0), second);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return second.has_value(); }));
  EXPECT_TRUE(Is(second, ErrorCode::kAuthenticationFailed)) << second->status().ToString();
  EXPECT_GT(listener_->refusals().wrong_key, 0u);
}

TEST_F(EndpointListenerTest, OfTwoThatKnockAtOnceOneIsLetIn) {
  Listen();
  int arrivals = 0;
  std::vector<EndpointArrival> kept;
  listener_->Expect(0, [&](EndpointArrival arrival) {
    ++arrivals;
    kept.push_back(std::move(arrival));
  });
  Outcome first;
  Outcome second;
  const auto one = Dial(To({Door()}, 0), first);
  const auto two = Dial(To({Door()}, 0), second);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return first && second; }));
  ASSERT_TRUE(RunUntil(*loop_, [&] { return listener_->refusals().wrong_key > 0; }));
  EXPECT_EQ(arrivals, 1);
}

TEST_F(EndpointListenerTest, EndpointMayBeExpectedAgainAfterItsAgentWasLost) {
  Listen();
  for (int round = 0; round < 3; ++round) {
    arrived_.clear();
    Expect(5);
    Outcome agent;
    const auto dialler = Dial(To({Door()}, 5), agent);
    EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(5); })) << round;
  }
}

TEST_F(EndpointListenerTest, ForgottenEndpointIsRefused) {
  Listen();
  Expect(1);
  listener_->Forget(1);
  listener_->Forget(2);
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 1), agent);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agent.has_value(); }));
  EXPECT_TRUE(Is(agent, ErrorCode::kAuthenticationFailed));
  EXPECT_TRUE(arrived_.empty());
}

TEST_F(EndpointListenerTest, AnotherJobsKeyIsRefusedAndTheEndpointStaysFree) {
  Listen();
  Expect(0);
  Outcome stranger;
  const auto one = Dial(To({Door()}, 0), stranger, 'x');
  ASSERT_TRUE(RunUntil(*loop_, [&] { return stranger.has_value(); }));
  EXPECT_TRUE(Is(stranger, ErrorCode::kAuthenticationFailed));
  Outcome agent;
  const auto two = Dial(To({Door()}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
}

TEST_F(EndpointListenerTest, GarbageAndPlainTextCostTheirOwnConnectionsOnly) {
  Listen();
  Expect(0);
  std::vector<UniqueFd> strangers;
  for (const std::string text : {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\xff\xff garbage", "x"}) {
    strangers.push_back(Stranger());
    ASSERT_TRUE(RunUntil(*loop_, [&] {
      return ::send(strangers.back().get(), text.data(), text.size(), MSG_NOSIGNAL) > 0;
    }));
  }
  strangers.back().Reset();
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
  EXPECT_TRUE(RunUntil(*loop_, [&] { return listener_->refusals().no_tls >= 3; }));
}

TEST_F(EndpointListenerTest, PeerThatOnlyConnectsIsDroppedAtTheLimit) {
  EndpointListenerOptions options;
  options.handshake_limit = milliseconds(20);
  Listen(options);
  const UniqueFd stranger = Stranger();
  EXPECT_TRUE(RunUntil(*loop_, [&] { return listener_->refusals().too_slow == 1; }));
  char byte = 0;
  EXPECT_EQ(::recv(stranger.get(), &byte, 1, 0), 0);
}

TEST_F(EndpointListenerTest, PeersThatOnlyConnectDoNotKeepAgentsOut) {
  EndpointListenerOptions options;
  options.max_pending = 4;
  options.handshake_limit = milliseconds(50);
  Listen(options);
  Expect(0);
  std::vector<UniqueFd> idle;
  for (int i = 0; i < 20; ++i) idle.push_back(Stranger());
  Settle(*loop_);
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
  EXPECT_GT(listener_->refusals().too_slow, 0u);
}

TEST_F(EndpointListenerTest, OutOfDescriptorsItWaitsForSome) {
  Listen();
  Expect(0);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  UniqueFd stranger = Stranger();  // waits in the backlog
  const UniqueFd probe(::dup(0));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(probe.get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  Settle(*loop_);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
}

TEST_F(EndpointListenerTest, MayBeDestroyedByAnArrival) {
  Listen();
  bool is_there = false;
  listener_->Expect(0, [&](const EndpointArrival& arrival) {
    is_there = arrival.stream != nullptr;
    listener_.reset();
  });
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return is_there; }));
}

TEST_F(EndpointListenerTest, TakenPortIsAnErrorThatNamesIt) {
  Listen();
  EndpointListenerOptions options;
  options.addresses = {"127.0.0.1"};
  options.port = listener_->port();
  const auto second = EndpointListener::Open(*loop_, options, EndpointKey());
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), ErrorCode::kAddressInUse);
  EXPECT_NE(second.status().message().find("127.0.0.1:"), std::string::npos);
}

TEST_F(EndpointListenerTest, NamesAreNoAddresses) {
  EndpointListenerOptions options;
  options.addresses = {"localhost"};
  const auto listener = EndpointListener::Open(*loop_, options, EndpointKey());
  ASSERT_FALSE(listener.ok());
  EXPECT_EQ(listener.status().code(), ErrorCode::kUsage);
}

TEST_F(EndpointListenerTest, WithoutAddressesItIsAtAllOfThisMachine) {
  auto listener = EndpointListener::Open(*loop_, {}, EndpointKey());
  ASSERT_TRUE(listener.ok()) << listener.status().ToString();
  listener_ = std::move(listener).value();
  Expect(0);
  Expect(1);
  Outcome agent;
  const auto dialler = Dial(To({Door("127.0.0.1")}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
}

}  // namespace
}  // namespace hvdray
