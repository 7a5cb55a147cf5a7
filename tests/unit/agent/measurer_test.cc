// SPDX-License-Identifier: Apache-2.0
// Measurements over real sockets; nothing leaves this machine.
#include "agent/measurer.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>

#include "agent/host_facts.h"
#include "agent/prober.h"
#include "tests/fakes/loop_runner.h"
#include "tests/fakes/test_sockets.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using wire::MeasureStep;
using wire::ProbeStage;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";

class MeasurerTest : public testing::Test {
 protected:
  MeasurerTest() : loop_(std::move(*Loop::Create())), server_(*loop_, kToken) {
    listener_ = std::move(*ProbeListener::Open(*loop_));
    listener_->GiveTo([this](UniqueFd socket) { server_.Take(std::move(socket)); });
  }

  static wire::Probe ProbeOf(uint16_t port) {
    return {60'000, {{"127.0.0.1", "127.0.0.1", port}}, kToken, 20};
  }
  wire::ProbeOutcome Run(const wire::Probe& probe) {
    std::optional<wire::ProbeOutcome> outcome;
    Measurer measurer(*loop_, probe, [&](const wire::ProbeOutcome& done) {
      EXPECT_FALSE(outcome.has_value()) << "a second answer";
      outcome = done;
    });
    EXPECT_FALSE(outcome.has_value()) << "answered from within the constructor";
    EXPECT_TRUE(RunUntil(*loop_, [&] { return outcome.has_value(); }));
    Settle(*loop_);
    return outcome.value_or(wire::ProbeOutcome());
  }

  std::unique_ptr<Loop> loop_;
  std::unique_ptr<ProbeListener> listener_;
  MeasureServer server_;
};

TEST_F(MeasurerTest, MeasuresRoundTripsAndBothDirections) {
  const wire::ProbeOutcome outcome = Run(ProbeOf(listener_->port()));
  EXPECT_EQ(outcome.stage, ProbeStage::kOk);
  EXPECT_EQ(outcome.step, MeasureStep::kDone);
  EXPECT_GT(outcome.round_trip_ns, 0);
  EXPECT_GT(outcome.sent_bytes_per_s, 0);
  EXPECT_GT(outcome.received_bytes_per_s, 0);
}

TEST_F(MeasurerTest, WithoutTheTokenItIsClosedWithoutAWord) {
  wire::Probe probe = ProbeOf(listener_->port());
  probe.token[3] = 'x';
  const wire::ProbeOutcome outcome = Run(probe);
  EXPECT_EQ(outcome.stage, ProbeStage::kOther);
  EXPECT_EQ(outcome.error, ECONNRESET);
  EXPECT_EQ(outcome.step, MeasureStep::kRoundTrips);
}

TEST_F(MeasurerTest, AnUnknownTaskOrTooLongAWindowIsClosed) {
  const std::string greetings[] = {std::string(kToken) + "x" + std::string("\x14\0\0\0", 4),
                                   std::string(kToken) + "s" + std::string(4, '\xff'),
                                   "GET / HTTP/1.0\r\n" + std::string(40, 'x')};
  for (const std::string& greeting : greetings) {
    UniqueFd client;
    ASSERT_EQ(ConnectTo(listener_->port(), &client), 0);
    ASSERT_EQ(::send(client.get(), greeting.data(), greeting.size(), 0),
              static_cast<ssize_t>(greeting.size()));
    char byte = 0;
    EXPECT_TRUE(RunUntil(*loop_, [&] {
      const ssize_t n = ::recv(client.get(), &byte, 1, MSG_DONTWAIT);
      return n == 0 || (n < 0 && errno == ECONNRESET);
    })) << greeting;
  }
}

TEST_F(MeasurerTest, AGreetingIsJudgedWholeAndNotByteByByte) {
  UniqueFd client;
  ASSERT_EQ(ConnectTo(listener_->port(), &client), 0);
  std::string greeting = std::string(kToken) + "s" + std::string("\x14\0\0\0", 4);
  greeting[0] = 'x';
  char byte = 0;
  const auto send = [&](size_t from, size_t count) {
    ASSERT_EQ(::send(client.get(), &greeting[from], count, 0), static_cast<ssize_t>(count));
  };
  send(0, 1);
  Settle(*loop_);
  EXPECT_LT(::recv(client.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(errno, EAGAIN) << "a wrong byte is told from a right one";
  send(1, greeting.size() - 2);
  Settle(*loop_);
  EXPECT_LT(::recv(client.get(), &byte, 1, MSG_DONTWAIT), 0);
  EXPECT_EQ(errno, EAGAIN);
  send(greeting.size() - 1, 1);
  EXPECT_TRUE(RunUntil(*loop_, [&] {
    const ssize_t n = ::recv(client.get(), &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno == ECONNRESET);
  }));
}

TEST_F(MeasurerTest, AFloodOfConnectionsCostsOnlyItself) {
  std::vector<UniqueFd> clients(30);
  for (UniqueFd& client : clients) ASSERT_EQ(ConnectTo(listener_->port(), &client), 0);
  Settle(*loop_);
  EXPECT_EQ(Run(ProbeOf(listener_->port())).error, ECONNRESET) << "all places are taken";
  clients.clear();
  Settle(*loop_);
  EXPECT_EQ(Run(ProbeOf(listener_->port())).step, MeasureStep::kDone);
}

TEST_F(MeasurerTest, SaysHowFarItCame) {
  const Result<HeldPort> held = HeldPort::Hold();
  ASSERT_TRUE(held.ok());
  wire::ProbeOutcome outcome = Run(ProbeOf(held->port()));
  EXPECT_EQ(outcome.stage, ProbeStage::kRefused);
  EXPECT_EQ(outcome.step, MeasureStep::kConnecting);
  const DeafListener deaf;
  wire::Probe probe = ProbeOf(deaf.port());
  probe.timeout_ms = 30;
  outcome = Run(probe);
  EXPECT_EQ(outcome.stage, ProbeStage::kTimeout);
  EXPECT_EQ(outcome.step, MeasureStep::kConnecting);
  const TestListener mute;
  probe.targets[0].port = mute.port();
  outcome = Run(probe);
  EXPECT_EQ(outcome.stage, ProbeStage::kTimeout);
  EXPECT_EQ(outcome.error, 0);
  EXPECT_EQ(outcome.step, MeasureStep::kRoundTrips);
}

TEST_F(MeasurerTest, MayBeDestroyedAtAnyTime) {
  for (int turns = 0; turns < 12; ++turns) {
    bool is_answered = false;
    auto measurer = std::make_unique<Measurer>(
        *loop_, ProbeOf(listener_->port()), [&](const wire::ProbeOutcome&) { is_answered = true; });
    int turn = 0;
    RunUntil(*loop_, [&] { return turn++ >= turns; });
    measurer.reset();
    Settle(*loop_);
    EXPECT_FALSE(is_answered);
  }
}

TEST(RateMeterTest, LeavesTheFirstQuarterOut) {
  RateMeter meter(milliseconds(100));
  const TimePoint begin{};
  EXPECT_EQ(meter.BytesPerSecond(begin), 0);
  meter.Add(5, begin + milliseconds(1000));
  meter.Add(5, begin + milliseconds(1024));
  meter.Add(5, begin + milliseconds(1025));  // from here on
  meter.Add(3000, begin + milliseconds(1050));
  meter.Add(4500, begin + milliseconds(1090));
  EXPECT_EQ(meter.BytesPerSecond(begin + milliseconds(1100)), 100'000);
}

TEST(RateMeterTest, CountsAllWhenTheWayIsSlow) {
  RateMeter meter(milliseconds(100));
  const TimePoint begin{};
  meter.Add(1000, begin);
  EXPECT_EQ(meter.BytesPerSecond(begin + milliseconds(100)), 10'000);
}

}  // namespace
}  // namespace hvdray
