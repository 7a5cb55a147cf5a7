// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_hosts.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/fakes/fake_endpoint_listener.h"
#include "tests/fakes/fake_stream.h"
#include "tests/fakes/loop_runner.h"
#include "tests/unit/ray_driver/ray_cluster.h"

namespace hvdray {
namespace {

class RayHostsTest : public testing::Test {
 protected:
  RayHostsTest() : loop_(std::move(*Loop::Create())) {
    auto [stream, wire] = FakeWire::Make();
    python_ = wire;
    broker_ = std::make_unique<RayBroker>(std::move(stream), RayBroker::Handlers{});
    transport_ = std::make_unique<RayTransport>(*loop_, *broker_, listener_, RayTransportOptions{});
    RayHostsOptions options;
    options.policy.group_prefix = "g";
    options.policy.max_slots = 4;
    hosts_ = std::make_unique<RayHosts>(*loop_, *broker_, *transport_, std::move(options));
    HostSource::Handlers handlers;
    handlers.on_hosts = [this](std::vector<HostSlots> hosts, bool is_final) {
      EXPECT_FALSE(is_final);
      std::string text = "[";
      for (const HostSlots& host : hosts)
        text += host.host + ":" + std::to_string(host.slots) + " ";
      told_.push_back(text + "]");
      if (stops_) hosts_->Stop();
    };
    EXPECT_TRUE(hosts_->Start(std::move(handlers)).ok());
  }

  std::unique_ptr<Loop> loop_;
  std::shared_ptr<FakeWire> python_;
  std::unique_ptr<RayBroker> broker_;
  FakeEndpointListener listener_;
  std::unique_ptr<RayTransport> transport_;
  std::unique_ptr<RayHosts> hosts_;
  std::vector<std::string> told_;
  bool stops_ = false;
};

TEST_F(RayHostsTest, TheFirstTableIsToldEvenWhenNothingIsThereYet) {
  hosts_->OnNodes({Node("a", "10.0.0.1", 2, 2)});
  EXPECT_TRUE(told_.empty()) << "never from within";
  Settle(*loop_);
  EXPECT_EQ(told_, std::vector<std::string>{"[]"});
  EXPECT_EQ(python_->TakeSent(),
            R"({"reserve":{"name":"g-1","bundles":[{"CPU":2.0,"node:10.0.0.1":0.001}],)"
            R"("strategy":"STRICT_PACK","selectors":null}})"
            "\n");
}

TEST_F(RayHostsTest, AHostThatIsToldCanBeStartedAndOneThatHasGoneCannot) {
  hosts_->OnNodes({Node("a", "10.0.0.1", 2, 2)});
  hosts_->OnGroup(Created("g-1", {"a"}));
  Settle(*loop_);
  EXPECT_EQ(told_.back(), "[10.0.0.1:2 ]");
  std::vector<Status> failures;
  const auto done = [&failures](const Result<AgentStart>& start) {
    failures.push_back(start.status());
  };
  transport_->Start("10.0.0.1", done);
  Settle(*loop_);
  EXPECT_TRUE(listener_.expected.contains(0));
  hosts_->OnNodes({Dead(Node("a", "10.0.0.1", 2, 2))});
  Settle(*loop_);
  EXPECT_EQ(told_.back(), "[]");
  const std::string sent = python_->TakeSent();
  EXPECT_NE(sent.find("{\"release\":{\"name\":\"g-1\"}}\n{\"close_endpoint\":{\"endpoint\":0}}\n"),
            std::string::npos)
      << sent;
  transport_->Start("10.0.0.1", done);
  Settle(*loop_);
  EXPECT_EQ(failures.size(), 1U);
}

TEST_F(RayHostsTest, WhoIsToldMayStopIt) {
  stops_ = true;
  hosts_->OnNodes({Node("a", "10.0.0.1", 2, 2)});
  Settle(*loop_);
  EXPECT_EQ(told_.size(), 1U);
  hosts_->OnGroup(Created("g-1", {"a"}));
  hosts_->OnEndpoint("10.0.0.1", false);
  Settle(*loop_);
  EXPECT_EQ(told_.size(), 1U);
}

}  // namespace
}  // namespace hvdray
