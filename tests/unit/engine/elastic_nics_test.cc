// SPDX-License-Identifier: Apache-2.0
// Which interface a joining host gets, and which hosts can't join.
#include "launcher/engine/elastic_nics.h"

#include <gtest/gtest.h>

#include "tests/unit/engine/elastic_facts.h"

namespace hvdray {
namespace {

using Interfaces = std::vector<wire::InterfaceFacts>;

const Interfaces kOffline = {Loopback()};
const Interfaces kA = {Loopback(), Network("eth0", "10.0.0.1", true), Network("ib0", "10.1.0.1")};
const Interfaces kB = {Loopback(), Network("eth0", "10.0.0.2", true), Network("ib0", "10.1.0.2")};
const NicChoice kOnLoopback = {"lo", "lo", "127.0.0.1"};

ElasticNicHost Here(const Interfaces& interfaces, std::optional<NicChoice> nic = {}) {
  return {"here", interfaces, false, std::move(nic)};
}
ElasticNicHost There(const Interfaces& interfaces, std::optional<NicChoice> nic = {}) {
  return {"there", interfaces, true, std::move(nic)};
}

TEST(ElasticNicsTest, AFixedListOfNamesOfThisMachineUsesLoopback) {
  const ElasticNics nics({}, /*is_fixed=*/true);
  std::vector<ElasticNicHost> hosts = {Here(kA), Here(kA)};
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic->gloo_interface, "lo");
  EXPECT_EQ(hosts[1].nic->gloo_interface, "lo");
}

TEST(ElasticNicsTest, AMachineThatOthersMayJoinUsesItsNetworkFromTheBeginning) {
  ElasticNics nics({}, /*is_fixed=*/false);
  std::vector<ElasticNicHost> hosts = {Here(kA)};
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic->gloo_interface, "eth0");
  EXPECT_EQ(hosts[0].nic->address, "10.0.0.1");
  nics.SetFixed(true);
  hosts = {Here(kA)};
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic->gloo_interface, "lo");
}

TEST(ElasticNicsTest, OneMachineWithoutANetworkRunsAJobOfItsOwn) {
  const ElasticNics nics({}, /*is_fixed=*/false);
  EXPECT_TRUE(nics.Check({}, Here(kOffline)).ok());
  std::vector<ElasticNicHost> hosts = {Here(kOffline), Here(kOffline)};
  EXPECT_TRUE(nics.Check(std::span(hosts).first(1), hosts[1]).ok());
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic, hosts[1].nic);
  EXPECT_EQ(hosts[0].nic->gloo_interface, "lo");
}

TEST(ElasticNicsTest, AJobBoundToLoopbackRefusesAHostElsewhere) {
  const ElasticNics nics({}, /*is_fixed=*/false);
  const std::vector<ElasticNicHost> present = {Here(kA, kOnLoopback)};
  const Status status = nics.Check(present, There(kB));
  EXPECT_EQ(status.code(), ErrorCode::kNoUsableInterface);
  EXPECT_NE(status.message().find("there can't reach"), std::string::npos) << status.message();
  EXPECT_NE(status.hint().find("--network-interfaces"), std::string::npos);
}

TEST(ElasticNicsTest, AJobBoundToLoopbackTakesAnotherNameOfTheSameMachine) {
  const ElasticNics nics({}, /*is_fixed=*/false);
  std::vector<ElasticNicHost> hosts = {Here(kA, kOnLoopback), Here(kA)};
  EXPECT_TRUE(nics.Check(std::span(hosts).first(1), hosts[1]).ok());
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[1].nic->gloo_interface, "lo") << "where the others are";
}

TEST(ElasticNicsTest, AHostWithoutANetworkCannotJoinAJobOfManyMachines) {
  const ElasticNics nics({}, /*is_fixed=*/false);
  const std::vector<ElasticNicHost> here = {Here(kA)};
  EXPECT_EQ(nics.Check(here, There(kOffline)).code(), ErrorCode::kNoUsableInterface);
  const std::vector<ElasticNicHost> there = {There(kB)};
  const Status status = nics.Check(there, Here(kOffline));
  EXPECT_EQ(status.code(), ErrorCode::kNoUsableInterface);
  EXPECT_NE(status.message().find("other hosts can reach"), std::string::npos) << status.message();
  EXPECT_TRUE(nics.Check(there, Here(kA)).ok());
}

TEST(ElasticNicsTest, ChoicesOfPresentHostsNeverChange) {
  const ElasticNics nics({}, /*is_fixed=*/false);
  const NicChoice old = {"ib0", "ib0", "10.1.0.1"};
  std::vector<ElasticNicHost> hosts = {Here(kA, old), There(kB)};
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic, old);
  ASSERT_TRUE(hosts[1].nic.has_value());
  const NicChoice second = *hosts[1].nic;
  hosts.push_back({"third", kB, true, std::nullopt});
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic, old);
  EXPECT_EQ(hosts[1].nic, second);
}

TEST(ElasticNicsTest, WantedInterfacesWinAndAreMissedWhereTheyAreNot) {
  const ElasticNics nics({"ib0"}, /*is_fixed=*/false);
  std::vector<ElasticNicHost> hosts = {Here(kA), There(kB)};
  EXPECT_TRUE(nics.Check(std::span(hosts).first(1), hosts[1]).ok());
  ASSERT_TRUE(nics.Choose(hosts).ok());
  EXPECT_EQ(hosts[0].nic->gloo_interface, "ib0");
  EXPECT_EQ(hosts[1].nic->address, "10.1.0.2");
  const Interfaces other = {Loopback(), Network("eth0", "10.0.0.3", true)};
  EXPECT_EQ(nics.Check(hosts, There(other)).code(), ErrorCode::kNoUsableInterface);
}

TEST(ElasticNicsTest, NothingIsFilledInWhenOneHostHasNone) {
  const ElasticNics nics({}, /*is_fixed=*/false);
  std::vector<ElasticNicHost> hosts = {Here(kA), There(kOffline)};
  EXPECT_EQ(nics.Choose(hosts).code(), ErrorCode::kNoUsableInterface);
  EXPECT_FALSE(hosts[0].nic.has_value());
}

}  // namespace
}  // namespace hvdray
