#include "cluster/ray/seat_transport.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/fake_seat_listener.h"
#include "tests/fakes/fake_stream.h"
#include "tests/fakes/loop_runner.h"

namespace hvdray {
namespace {

class SeatTransportTest : public testing::Test {
 protected:
  SeatTransportTest() : loop_(std::move(*Loop::Create())) {
    transport_ = std::make_unique<SeatTransport>(
        *loop_, listener_, std::vector<std::string>{"a", "b"}, [this] { ++arrivals_; });
  }

  std::shared_ptr<FakeWire> Arrive(int seat) {
    auto [stream, wire] = FakeWire::Make();
    listener_.Arrive(seat, std::move(stream));
    return wire;
  }
  void Start(const std::string& host) {
    transport_->Start(host, [this](Result<AgentStart> start) {
      if (!start.ok()) return failures_.push_back(start.status());
      start->process->OnExit([this](const Status& how) { exits_.push_back(how.ToString()); });
      agents_.push_back(std::move(start).value());
    });
    EXPECT_TRUE(failures_.empty()) << "never from within Start()";
    Settle(*loop_);
  }

  std::unique_ptr<Loop> loop_;
  FakeSeatListener listener_;
  std::unique_ptr<SeatTransport> transport_;
  int arrivals_ = 0;
  std::vector<AgentStart> agents_;
  std::vector<Status> failures_;
  std::vector<std::string> exits_;
};

TEST_F(SeatTransportTest, AgentsWaitUntilTheyAreAskedFor) {
  EXPECT_EQ(transport_->MissingHosts(), (std::vector<std::string>{"a", "b"}));
  const std::shared_ptr<FakeWire> wire = Arrive(1);
  EXPECT_EQ(arrivals_, 1);
  EXPECT_EQ(transport_->MissingHosts(), std::vector<std::string>{"a"});
  Start("b");
  ASSERT_EQ(agents_.size(), 1U);
  EXPECT_EQ(transport_->MissingHosts(), std::vector<std::string>{"a"});
  agents_[0].stream->Write("hello");
  EXPECT_EQ(wire->TakeSent(), "hello");
}

TEST_F(SeatTransportTest, AHostWithoutAnAgentIsAFailedStart) {
  Start("a");
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_EQ(failures_[0].code(), ErrorCode::kAgentStartFailed);
  EXPECT_NE(failures_[0].message().find("start agent on a"), std::string::npos);
}

TEST_F(SeatTransportTest, AnAgentIsHandedOverOnce) {
  Arrive(0);
  Start("a");
  ASSERT_EQ(agents_.size(), 1U);
  transport_->Start("a", [this](Result<AgentStart> start) { failures_.push_back(start.status()); });
  Settle(*loop_);
  ASSERT_EQ(failures_.size(), 1U);
  EXPECT_EQ(failures_[0].code(), ErrorCode::kAgentStartFailed);
}

TEST_F(SeatTransportTest, AnAgentHasEndedWhenItsStreamIsClosed) {
  const std::shared_ptr<FakeWire> wire = Arrive(0);
  Start("a");
  ASSERT_EQ(agents_.size(), 1U);
  bool is_closed = false;
  agents_[0].stream->Start({.on_data = [](ByteView) {},
                            .on_drained = nullptr,
                            .on_closed = [&](const Status&) { is_closed = true; }});
  EXPECT_TRUE(exits_.empty());
  wire->Close(Status());
  Settle(*loop_);
  EXPECT_TRUE(is_closed);
  EXPECT_EQ(exits_.size(), 1U);
  agents_.clear();
  Settle(*loop_);
  EXPECT_EQ(exits_.size(), 1U) << "once";
}

TEST_F(SeatTransportTest, AnAgentHasEndedWhenNobodyHoldsItsStream) {
  Arrive(0);
  Start("a");
  agents_[0].stream.reset();
  Settle(*loop_);
  EXPECT_EQ(exits_.size(), 1U);
}

TEST_F(SeatTransportTest, WhoeverHasGoneIsNotTold) {
  Arrive(0);
  Start("a");
  agents_[0].stream.reset();
  agents_[0].process.reset();
  Settle(*loop_);
  EXPECT_TRUE(exits_.empty());
}

TEST_F(SeatTransportTest, WithoutATransportNobodyIsExpected) {
  transport_.reset();
  EXPECT_TRUE(listener_.expected.empty());
}

}  // namespace
}  // namespace hvdray
