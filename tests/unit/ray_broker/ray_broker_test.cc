// SPDX-License-Identifier: Apache-2.0
// The broker hands on what comes in any pieces, and says once why no more will come.
#include "cluster/ray/ray_broker.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/fakes/fake_stream.h"
#include "tests/fakes/fault_catalogue.h"

namespace hvdray {
namespace {

constexpr char kHello[] =
    R"({"hello":{"ray":"2.60.0","node_id":"a","node_ip":"10.0.0.10","logs":"/logs"}})"
    "\n";

class RayBrokerTest : public testing::Test {
 protected:
  RayBrokerTest() {
    auto [stream, wire] = FakeWire::Make();
    wire_ = wire;
    broker_ = std::make_unique<RayBroker>(
        std::move(stream),
        RayBroker::Handlers{
            [this](BrokerHello hello) { heard_.push_back("hello " + hello.ray); },
            [this](BrokerNodes nodes) {
              heard_.push_back("nodes " + std::to_string(nodes.size()));
            },
            [this](BrokerGroup group) { heard_.push_back("group " + group.name); },
            [this](BrokerEndpointStarted endpoint) {
              heard_.push_back("started " + endpoint.node_id);
            },
            [this](BrokerEndpointEnded endpoint) { heard_.push_back("ended " + endpoint.text); },
            [this](BrokerSignal signal) {
              heard_.push_back("signal " + std::to_string(signal.signo));
            },
            [this](Status why) {
              closed_.push_back(why);
              if (ends_when_closed_) broker_.reset();
            }});
    broker_->Start();
  }

  std::shared_ptr<FakeWire> wire_;
  std::unique_ptr<RayBroker> broker_;
  std::vector<std::string> heard_;
  std::vector<Status> closed_;
  bool ends_when_closed_ = false;
};

TEST_F(RayBrokerTest, EachMessageGoesToItsHandlerInWhateverPiecesItComes) {
  const std::string all = std::string(kHello) + "{\"nodes\":[]}\n" +
                          R"({"group":{"name":"g","state":"created","bundles":["a"]}})" + "\n" +
                          R"({"endpoint":{"endpoint":0,"state":"started","node_id":"a"}})" + "\n" +
                          R"({"endpoint":{"endpoint":0,"state":"ended","text":"t"}})" + "\n" +
                          "{\"signal\":15}\n";
  const std::vector<std::string> expected = {"hello 2.60.0", "nodes 0", "group g",
                                             "started a",    "ended t", "signal 15"};
  wire_->Deliver(all, /*piece=*/1);
  EXPECT_EQ(heard_, expected);
  EXPECT_TRUE(closed_.empty());
}

TEST_F(RayBrokerTest, OrdersLeaveInTheirOrder) {
  broker_->Reserve({"g", {{{"CPU", 1}}}, "PACK", {}});
  broker_->Watch();
  broker_->Endpoint({0, "g", {0}, {"agent"}, "key"});
  broker_->CloseEndpoint(0);
  broker_->Release("g");
  EXPECT_EQ(wire_->TakeSent(), FormatBrokerReserve({"g", {{{"CPU", 1}}}, "PACK", {}}) +
                                   FormatBrokerWatch() +
                                   FormatBrokerEndpoint({0, "g", {0}, {"agent"}, "key"}) +
                                   FormatBrokerCloseEndpoint(0) + FormatBrokerRelease("g"));
}

TEST_F(RayBrokerTest, TheEndOfPythonIsToldOnce) {
  wire_->Deliver(kHello);
  wire_->Close({});
  wire_->Close({});
  ASSERT_EQ(closed_.size(), 1u);
  ExpectError(closed_[0], ErrorCode::kRayFailed, {"Ray", "ray_driver.py", "ended"});
  EXPECT_FALSE(closed_[0].hint().empty());
  broker_->Watch();
  EXPECT_EQ(wire_->TakeSent(), "");
}

TEST_F(RayBrokerTest, AFailedPipeIsAFailedRay) {
  wire_->Close(ErrnoStatus("write", EPIPE));
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_EQ(closed_[0].code(), ErrorCode::kRayFailed);
}

TEST_F(RayBrokerTest, WhatNoPythonFileOfOursSaysEndsTheConversation) {
  const std::vector<std::string> texts = {"{\"nodes\":[]}\n", std::string(kHello) + kHello,
                                          "Traceback \x1b[31m\n"};
  for (const std::string& text : texts) {
    closed_.clear();
    auto [stream, wire] = FakeWire::Make();
    RayBroker broker(std::move(stream),
                     {.on_closed = [this](Status why) { closed_.push_back(why); }});
    broker.Start();
    wire->Deliver(text + "{\"signal\":15}\n");
    wire->Close({});
    ASSERT_EQ(closed_.size(), 1u) << text;
    EXPECT_EQ(closed_[0].code(), ErrorCode::kProtocolError);
    EXPECT_TRUE(closed_[0].message().starts_with("ray_driver.py sent '")) << closed_[0].message();
    EXPECT_EQ(closed_[0].message().find('\x1b'), std::string::npos);
  }
}

TEST_F(RayBrokerTest, ALineWithoutEndIsNotKeptForEver) {
  wire_->Deliver(kHello);
  const std::string piece(size_t{1} << 20, 'x');
  for (size_t sent = 0; sent <= kMaxBrokerLine && closed_.empty(); sent += piece.size()) {
    wire_->Deliver(piece);
  }
  ASSERT_EQ(closed_.size(), 1u);
  EXPECT_EQ(closed_[0].code(), ErrorCode::kProtocolError);
}

TEST_F(RayBrokerTest, TheLastHandlerMayDestroyTheBroker) {
  ends_when_closed_ = true;
  wire_->Deliver("garbage\n");
  EXPECT_EQ(closed_.size(), 1u);
  EXPECT_TRUE(wire_->is_destroyed());
}

}  // namespace
}  // namespace hvdray
