// SPDX-License-Identifier: Apache-2.0
// How an agent dials its driver: retries, several addresses, final rejections.
#include "cluster/transport/endpoint_dialler.h"

#include "tests/unit/endpoints/endpoint_harness.h"

namespace hvdray {
namespace {

class EndpointDiallerTest : public EndpointTest {
 protected:
  /// A loopback port without a listener, reserved so that it stays so.
  TcpAddress NobodysDoor() {
    EndpointListenerOptions options;
    options.addresses = {"127.0.0.1"};
    auto other = EndpointListener::Open(*loop_, options, EndpointKey());
    TcpAddress address = *ParseIpLiteral("127.0.0.1");
    address.port = other.ok() ? other->get()->port() : uint16_t{1};
    return address;
  }
};

TEST_F(EndpointDiallerTest, DriverThatListensLaterIsFound) {
  const TcpAddress door = NobodysDoor();
  Outcome agent;
  const auto dialler = Dial(To({door}, 0), agent);
  int turns = 0;
  RunUntil(*loop_, [&] { return ++turns > 200; });
  EXPECT_FALSE(agent.has_value());
  EndpointListenerOptions options;
  options.port = door.port;
  Listen(options);
  Expect(0);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
}

TEST_F(EndpointDiallerTest, EndpointThatIsExpectedALittleLaterIsStillGot) {
  Listen();
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 0), agent);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return listener_->refusals().wrong_key == 1; }));
  Expect(0);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
}

TEST_F(EndpointDiallerTest, NextAddressIsTriedWhereOneIsDeadOrSomebodyElses) {
  Listen();
  Expect(0);
  EndpointListenerOptions options;
  options.addresses = {"127.0.0.1"};
  auto foreign = EndpointListener::Open(*loop_, options, EndpointKey('x'));
  ASSERT_TRUE(foreign.ok());
  TcpAddress other = Door();
  other.port = (*foreign)->port();
  Outcome agent;
  const auto dialler = Dial(To({NobodysDoor(), other, Door()}, 0), agent);
  EXPECT_TRUE(RunUntil(*loop_, [&] { return arrived_.contains(0); }));
}

TEST_F(EndpointDiallerTest, AtTheDeadlineTheLastErrorIsTold) {
  EndpointDialOptions options = To({NobodysDoor()}, 0);
  options.limit = milliseconds(500);
  Outcome agent;
  const auto dialler = Dial(options, agent);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agent.has_value(); }));
  EXPECT_TRUE(Is(agent, ErrorCode::kHostRefused)) << agent->status().ToString();
  EXPECT_NE(agent->status().message().find("127.0.0.1:"), std::string::npos);
}

TEST_F(EndpointDiallerTest, DriverThatTakesConnectionsButSaysNothingIsGivenUp) {
  TcpAddress at = *ParseIpLiteral("127.0.0.1");
  auto silent = ListenAt(at);
  ASSERT_TRUE(silent.ok());
  EndpointDialOptions options = To({*LocalAddress(silent->get())}, 0);
  options.limit = milliseconds(100);
  options.handshake_limit = milliseconds(10);
  Outcome agent;
  const auto dialler = Dial(options, agent);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agent.has_value(); }));
  EXPECT_TRUE(Is(agent, ErrorCode::kConnectTimeout)) << agent->status().ToString();
}

TEST_F(EndpointDiallerTest, RefusalOfEveryAddressIsFinalLongBeforeTheDeadline) {
  Listen();
  Outcome agent;
  const auto dialler = Dial(To({Door()}, 9), agent);
  ASSERT_TRUE(RunUntil(*loop_, [&] { return agent.has_value(); }));
  EXPECT_TRUE(Is(agent, ErrorCode::kAuthenticationFailed));
  EXPECT_FALSE(agent->status().hint().empty());
  EXPECT_EQ(listener_->refusals().wrong_key, 4u);
}

TEST_F(EndpointDiallerTest, DestroyedItSaysNothing) {
  Listen();
  Expect(0);
  Outcome agent;
  auto dialler = Dial(To({Door()}, 0), agent);
  Settle(*loop_);
  agent.reset();
  dialler.reset();
  Settle(*loop_);
  EXPECT_FALSE(agent.has_value());
}

}  // namespace
}  // namespace hvdray
