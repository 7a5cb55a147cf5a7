// SPDX-License-Identifier: Apache-2.0
// Which interface is taken, by the facts of hosts as they are found in the wild.
#include "launcher/job/nic_select.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

using wire::InterfaceFacts;

InterfaceFacts Lo(bool is_up = true) {
  return {.name = "lo", .addresses = {{"127.0.0.1", 8}}, .is_up = is_up, .is_loopback = true};
}

InterfaceFacts Nic(std::string name, std::string address, int prefix = 24) {
  return {.name = std::move(name), .addresses = {{std::move(address), prefix}}, .is_up = true};
}

InterfaceFacts Fast(InterfaceFacts facts, int64_t speed_mbps) {
  facts.speed_mbps = speed_mbps;
  return facts;
}

InterfaceFacts Virtual(InterfaceFacts facts) {
  facts.is_virtual = true;
  return facts;
}

InterfaceFacts Default(InterfaceFacts facts) {
  facts.has_default_route = true;
  return facts;
}

using Cluster = std::vector<std::vector<InterfaceFacts>>;

Result<std::vector<NicChoice>> Select(const Cluster& cluster, std::vector<std::string> wanted = {},
                                      HostSpread spread = HostSpread::kManyMachines) {
  std::vector<HostNics> hosts;
  for (size_t i = 0; i < cluster.size(); ++i) {
    hosts.push_back({std::string(1, static_cast<char>('a' + i)), cluster[i]});
  }
  return SelectNics(hosts, wanted, spread);
}

/// "eth0 eth1": what Gloo gets on each host, or the error.
std::string Names(const Cluster& cluster, std::vector<std::string> wanted = {},
                  HostSpread spread = HostSpread::kManyMachines) {
  const auto choices = Select(cluster, std::move(wanted), spread);
  if (!choices.ok()) return choices.status().ToString();
  std::string names;
  for (const NicChoice& choice : *choices) {
    names += (names.empty() ? "" : " ") + choice.gloo_interface;
  }
  return names;
}

TEST(SelectNicsTest, TakesLoopbackWhenAllSharesOneMachine) {
  const auto choices = Select({{Nic("eth0", "10.0.0.1"), Lo()}}, {}, HostSpread::kOneMachine);
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ(*choices, (std::vector<NicChoice>{{"lo", "lo", "127.0.0.1"}}));
}

TEST(SelectNicsTest, TakesLoopbackForTwoNamesOfOneMachine) {
  EXPECT_EQ(Names({{Lo()}, {Lo()}}, {}, HostSpread::kOneMachine), "lo lo");
}

TEST(SelectNicsTest, SaysHowToBringLoopbackUp) {
  const auto choices = Select({{Nic("eth0", "10.0.0.1"), Lo(false)}}, {}, HostSpread::kOneMachine);
  ASSERT_FALSE(choices.ok());
  EXPECT_EQ(choices.status().code(), ErrorCode::kNoUsableInterface);
  EXPECT_EQ(choices.status().message(), "the loopback interface lo of host a is down");
  EXPECT_EQ(choices.status().hint(), "bring it up: ip link set lo up");
}

TEST(SelectNicsTest, SaysThatLoopbackIsMissing) {
  EXPECT_EQ(Names({{}}, {}, HostSpread::kOneMachine),
            "the loopback interface lo of host a is missing or has no address 127.0.0.1 "
            "[HVD-E0210]\n  hint: bring it up: ip link set lo up");
  InterfaceFacts odd = Lo();
  odd.addresses = {{"10.1.1.1", 32}};
  EXPECT_FALSE(Select({{odd}}, {}, HostSpread::kOneMachine).ok());
}

TEST(SelectNicsTest, TakesTheUsersInterfaceEvenOnOneMachine) {
  const auto choices = Select({{Lo(), Nic("eth0", "10.0.0.1")}}, {"eth0"}, HostSpread::kOneMachine);
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ(*choices, (std::vector<NicChoice>{{"eth0", "eth0", "127.0.0.1"}}));
}

TEST(SelectNicsTest, MeetsOnTheUsersInterfaceWhenLoopbackIsDown) {
  const auto choices =
      Select({{Lo(false), Nic("eth0", "10.0.0.1")}}, {"eth0"}, HostSpread::kOneMachine);
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ((*choices)[0].address, "10.0.0.1");
}

TEST(SelectNicsTest, KeepsTheUsersOrderAndGivesNcclTheWholeList) {
  const auto choices = Select({{Lo(), Nic("eth0", "10.0.0.1"), Nic("ib0", "10.9.0.1")},
                               {Lo(), Nic("ib0", "10.9.0.2"), Nic("eth0", "10.0.0.2")}},
                              {"ib0", "eth0", "ib0"});
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ(*choices, (std::vector<NicChoice>{{"ib0", "ib0,eth0", "10.9.0.1"},
                                              {"ib0", "ib0,eth0", "10.9.0.2"}}));
}

TEST(SelectNicsTest, PrefersTheUsersNameThatAllHostsHave) {
  EXPECT_EQ(Names({{Nic("ib0", "10.9.0.1"), Nic("eth0", "10.0.0.1")}, {Nic("eth0", "10.0.0.2")}},
                  {"ib0", "eth0"}),
            "eth0 eth0");
}

TEST(SelectNicsTest, TakesTheUsersNamesPerHostWhenNoneIsCommon) {
  EXPECT_EQ(Names({{Nic("ens3", "10.0.0.1")}, {Nic("eth0", "10.0.0.2")}}, {"eth0", "ens3"}),
            "ens3 eth0");
}

TEST(SelectNicsTest, NamesTheInterfacesOfAHostWithoutTheUsers) {
  const auto choices =
      Select({{Nic("eth0", "10.0.0.1")}, {Lo(), Nic("ens3", "10.0.0.2")}}, {"eth0"});
  ASSERT_FALSE(choices.ok());
  EXPECT_EQ(choices.status().message(), "host b has none of eth0; its interfaces: lo, ens3");
}

TEST(SelectNicsTest, SuggestsTheNearestNameForOneThatNoHostHas) {
  const auto choices =
      Select({{Lo(), Nic("eth0", "10.0.0.1")}, {Lo(), Nic("eth0", "10.0.0.2")}}, {"eht0"});
  ASSERT_FALSE(choices.ok());
  EXPECT_EQ(choices.status().message(),
            "host a has no usable interface eht0; its interfaces: lo, eth0");
  EXPECT_EQ(choices.status().hint(), "did you mean eth0?");
}

TEST(SelectNicsTest, SaysThatTheUsersInterfaceIsDownOrHasNoAddress) {
  InterfaceFacts down = Nic("eth0", "10.0.0.1");
  down.is_up = false;
  EXPECT_EQ(Select({{down}}, {"eth0"}).status().message(),
            "host a has no usable interface eth0; its interfaces: eth0 (down)");
  InterfaceFacts bare = Nic("eth0", "10.0.0.1");
  bare.addresses.clear();
  EXPECT_EQ(Select({{bare}}, {"eth0"}).status().message(),
            "host a has no usable interface eth0; its interfaces: eth0 (no IPv4 address)");
}

TEST(SelectNicsTest, TakesTheNameThatAllHostsHave) {
  const auto choices = Select({{Lo(), Nic("eth0", "10.0.0.1"), Nic("wlan0", "10.0.0.11")},
                               {Lo(), Nic("wlan1", "10.0.0.12"), Nic("eth0", "10.0.0.2")}});
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ((*choices)[0], (NicChoice{"eth0", "eth0", "10.0.0.1"}));
  EXPECT_EQ((*choices)[1], (NicChoice{"eth0", "eth0", "10.0.0.2"}));
}

TEST(SelectNicsTest, TakesDifferentNamesThatShareASubnet) {
  EXPECT_EQ(Names({{Nic("ens3", "10.0.0.1"), Nic("ens4", "192.168.1.1")},
                   {Nic("enp1s0", "172.16.0.2"), Nic("enp2s0", "10.0.0.2")}}),
            "ens3 enp2s0");
}

TEST(SelectNicsTest, IsNotLuredByABridgeThatHasTheSameAddressEverywhere) {
  EXPECT_EQ(Names({{Virtual(Nic("docker0", "172.17.0.1", 16)), Nic("ens3", "10.0.0.1")},
                   {Virtual(Nic("docker0", "172.17.0.1", 16)), Nic("eth0", "10.0.0.2")}}),
            "ens3 eth0");
}

TEST(SelectNicsTest, IsNotLuredByALoneFastNetworkOfOneHost) {
  EXPECT_EQ(Names({{Nic("eth0", "10.0.0.1"), Fast(Nic("ib0", "10.9.0.1"), 200000)},
                   {Nic("eth0", "10.0.0.2")}}),
            "eth0 eth0");
}

TEST(SelectNicsTest, PrefersTheFasterOfTwoSharedNetworks) {
  EXPECT_EQ(
      Names(
          {{Default(Fast(Nic("eth0", "10.0.0.1"), 10000)), Fast(Nic("ib0", "10.9.0.1"), 200000)},
           {Default(Fast(Nic("eth0", "10.0.0.2"), 10000)), Fast(Nic("ib0", "10.9.0.2"), 200000)}}),
      "ib0 ib0");
}

TEST(SelectNicsTest, JudgesANameByItsSlowestHost) {
  EXPECT_EQ(Names({{Fast(Nic("e1", "10.1.0.1"), 100000), Fast(Nic("e2", "10.2.0.1"), 25000)},
                   {Fast(Nic("e1", "10.1.0.2"), 1000), Fast(Nic("e2", "10.2.0.2"), 25000)}}),
            "e2 e2");
}

TEST(SelectNicsTest, PrefersHardwareToATunnel) {
  EXPECT_EQ(Names({{Virtual(Nic("aaa", "10.8.0.1")), Nic("eth0", "10.0.0.1")},
                   {Virtual(Nic("aaa", "10.8.0.2")), Nic("eth0", "10.0.0.2")}}),
            "eth0 eth0");
}

TEST(SelectNicsTest, TakesATunnelWhenItIsAllThereIs) {
  EXPECT_EQ(
      Names({{Lo(), Virtual(Nic("eth0", "10.8.0.1"))}, {Lo(), Virtual(Nic("eth0", "10.8.0.2"))}}),
      "eth0 eth0");
}

TEST(SelectNicsTest, DecidesATieByName) {
  EXPECT_EQ(Names({{Nic("b", "10.1.0.1"), Nic("a", "10.2.0.1")},
                   {Nic("a", "10.2.0.2"), Nic("b", "10.1.0.2")}}),
            "a a");
}

TEST(SelectNicsTest, TakesRoutedHostsWithoutASharedSubnet) {
  EXPECT_EQ(Names({{Default(Nic("eth0", "10.0.1.1"))}, {Default(Nic("eth0", "10.0.2.1"))}}),
            "eth0 eth0");
}

TEST(SelectNicsTest, RefusesAHostThatOthersCannotReach) {
  InterfaceFacts down = Nic("eth0", "10.0.0.2");
  down.is_up = false;
  const auto choices =
      Select({{Nic("eth0", "10.0.0.1")}, {Lo(), Nic("eth1", "169.254.7.7", 16), down}});
  ASSERT_FALSE(choices.ok());
  EXPECT_EQ(choices.status().code(), ErrorCode::kNoUsableInterface);
  EXPECT_EQ(choices.status().message(),
            "host b has no interface that other hosts could reach; its interfaces: lo, eth1, "
            "eth0 (down)");
}

TEST(SelectNicsTest, JudgesAnInterfaceByItsFirstAddressAsGlooDoes) {
  InterfaceFacts two = Nic("eth0", "169.254.1.1", 16);
  two.addresses.push_back({"10.0.0.1", 24});
  EXPECT_EQ(Names({{two, Nic("eth1", "10.5.0.1")}, {Nic("eth1", "10.5.0.2")}}), "eth1 eth1");
}

TEST(SelectNicsTest, GivesASingleHostThatOthersMayJoinItsDefaultRoute) {
  EXPECT_EQ(Names({{Lo(), Fast(Nic("ib0", "10.9.0.1"), 200000), Default(Nic("eth0", "10.0.0.1"))}}),
            "eth0");
  EXPECT_EQ(Names({{Lo()}}), "lo") << "nothing else to take";
}

TEST(SelectNicsTest, SurvivesFactsThatMakeNoSense) {
  InterfaceFacts odd = Nic("eth0", "999.1.1.1", -5);
  InterfaceFacts empty = Nic("", "", 99);
  EXPECT_FALSE(Select({{odd, empty}, {odd}}).ok());
  EXPECT_EQ(Names({{odd, Nic("eth1", "10.0.0.1", 0)}, {Fast(Nic("eth1", "10.0.0.2", 64), -9)}}),
            "eth1 eth1");
}

TEST(SelectNicsTest, TellsNcclTheExactNameWhereItIsAPrefixOfAnother) {
  const auto choices =
      Select({{Nic("eth1", "10.0.0.1"), Nic("eth10", "10.3.0.1")}, {Nic("eth1", "10.0.0.2")}});
  ASSERT_TRUE(choices.ok());
  EXPECT_EQ((*choices)[0].nccl_interfaces, "=eth1");
  EXPECT_EQ((*choices)[1].nccl_interfaces, "eth1");
}

TEST(SelectNicsTest, HasNothingToChooseWithoutHosts) {
  const auto choices = Select({});
  ASSERT_TRUE(choices.ok());
  EXPECT_TRUE(choices->empty());
}

}  // namespace
}  // namespace hvdray
