// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/host_table.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/elastic_facts.h"

namespace hvdray {
namespace {

class HostTableTest : public testing::Test {
 protected:
  /// A ready host with `interfaces`.
  JobHost& Ready(int host, const std::string& name, int agent,
                 std::vector<wire::InterfaceFacts> interfaces, bool is_elsewhere = false) {
    hosts_.Connect(host, {name, 2}, agent);
    JobHost& entry = hosts_.At(host);
    entry.is_ready = true;
    entry.is_elsewhere = is_elsewhere;
    entry.facts.interfaces = std::move(interfaces);
    return entry;
  }
  HostTable hosts_;
  const ElasticNics nics_{{}, /*is_fixed=*/false};
};

TEST_F(HostTableTest, AHostIsFoundByItsPresentAgentOnly) {
  hosts_.Connect(0, {"a", 2}, 10);
  hosts_.Connect(2, {"c", 1}, 11);
  EXPECT_EQ(hosts_.HostOf(10), 0);
  EXPECT_EQ(hosts_.HostOf(11), 2);
  EXPECT_EQ(hosts_.HostOf(12), -1);
  hosts_.Connect(0, {"a", 4}, 12);
  EXPECT_EQ(hosts_.HostOf(10), -1) << "what the old one still says is nobody's";
  EXPECT_EQ(hosts_.HostOf(12), 0);
  EXPECT_EQ(hosts_.At(0).slots.slots, 4);
}

TEST_F(HostTableTest, HostsAreKnownUpToTheHighestThatWasNamed) {
  EXPECT_FALSE(hosts_.IsKnown(0));
  hosts_.Connect(1, {"b", 1}, 5);
  EXPECT_TRUE(hosts_.IsKnown(0));
  EXPECT_TRUE(hosts_.IsKnown(1));
  EXPECT_FALSE(hosts_.IsKnown(2));
  EXPECT_FALSE(hosts_.IsKnown(-1));
}

TEST_F(HostTableTest, ReadyAgentsAreTakenToTheNumbersOfAnotherJob) {
  JobHost& host = Ready(0, "a", 10, {Loopback()});
  host.has_workers = true;
  host.stopping = 3;
  host.facts.offered_port = 99;
  ASSERT_TRUE(hosts_.ChooseNics(nics_).ok());
  hosts_.Connect(1, {"b", 1}, 11);  // not ready
  Ready(2, "c", 12, {Loopback()});
  hosts_.Disconnect(2);
  std::vector<JobHost> kept = hosts_.TakeReady();
  EXPECT_EQ(hosts_.size(), 0);
  EXPECT_EQ(hosts_.HostOf(10), -1);
  ASSERT_EQ(kept.size(), 1U);
  hosts_.Adopt(4, {"a", 7}, std::move(kept[0]));
  const JobHost& adopted = hosts_.At(4);
  EXPECT_EQ(hosts_.HostOf(10), 4);
  EXPECT_EQ(adopted.slots.slots, 7);
  EXPECT_EQ(adopted.facts.offered_port, 99);
  EXPECT_TRUE(adopted.is_ready);
  EXPECT_FALSE(adopted.has_workers || adopted.nic.has_value() || adopted.stopping.has_value());
}

TEST_F(HostTableTest, WhatAnAgentBroughtGoesWithIt) {
  JobHost& host = Ready(0, "a", 10, {Loopback(), Network("eth0", "10.0.0.1", true)});
  host.has_workers = true;
  host.stopping = 3;
  host.relay.requests = 7;
  ASSERT_TRUE(hosts_.ChooseNics(nics_).ok());
  ASSERT_TRUE(hosts_.At(0).nic.has_value());
  EXPECT_EQ(hosts_.Disconnect(0), 10);
  EXPECT_EQ(hosts_.HostOf(10), -1);
  const JobHost& gone = hosts_.At(0);
  EXPECT_EQ(gone.agent, -1);
  EXPECT_FALSE(gone.is_ready);
  EXPECT_FALSE(gone.has_workers);
  EXPECT_FALSE(gone.nic.has_value()) << "new workers may use another";
  EXPECT_FALSE(gone.stopping.has_value());
  EXPECT_EQ(gone.relay.requests, 7u) << "for the report";
  EXPECT_EQ(hosts_.Disconnect(0), -1);
}

TEST_F(HostTableTest, AHostIsCheckedAgainstTheOthersThatAreReady) {
  Ready(0, "a", 10, {Loopback()}).nic = NicChoice{"lo", "lo", "127.0.0.1"};
  Ready(1, "b", 11, {Loopback(), Network("eth0", "10.0.0.2", true)}, /*is_elsewhere=*/true);
  EXPECT_EQ(hosts_.CheckNic(nics_, 1).code(), ErrorCode::kNoUsableInterface);
  hosts_.Disconnect(0);
  EXPECT_TRUE(hosts_.CheckNic(nics_, 1).ok());
}

TEST_F(HostTableTest, InterfacesAreChosenForReadyHostsAndStay) {
  Ready(0, "a", 10, {Loopback(), Network("eth0", "10.0.0.1", true)});
  hosts_.Connect(1, {"b", 1}, 11);
  ASSERT_TRUE(hosts_.ChooseNics(nics_).ok());
  EXPECT_EQ(hosts_.At(0).nic->address, "10.0.0.1");
  EXPECT_FALSE(hosts_.At(1).nic.has_value()) << "has not said Hello";
  hosts_.At(0).nic->gloo_interface = "kept";
  Ready(1, "b", 12, {Loopback(), Network("eth0", "10.0.0.2", true)}, /*is_elsewhere=*/true);
  ASSERT_TRUE(hosts_.ChooseNics(nics_).ok());
  EXPECT_EQ(hosts_.At(0).nic->gloo_interface, "kept");
  EXPECT_EQ(hosts_.At(1).nic->address, "10.0.0.2");
}

TEST_F(HostTableTest, TheReportHasEveryHostThatWasConnectedTo) {
  hosts_.Connect(0, {"a", 2}, 10);
  hosts_.Connect(2, {"c", 3}, 11);
  hosts_.Disconnect(0);
  const std::vector<HostReport> report = hosts_.Report();
  ASSERT_EQ(report.size(), 2u);
  EXPECT_EQ(report[0].name, "a");
  EXPECT_EQ(report[1].name, "c");
  EXPECT_EQ(report[1].slots, 3);
}

}  // namespace
}  // namespace hvdray
