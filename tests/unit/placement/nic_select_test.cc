// SPDX-License-Identifier: Apache-2.0
// Which interface is chosen, from the facts of hosts as they are found in the wild and of random
// clusters. Not here: whether the agents report the facts (tests/unit/agent), whether packets pass
// (tests/integration).
#include "launcher/job/nic_select.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/fakes/fault_catalogue.h"

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

/// Expects the fault and, in its message, these parts.
void ExpectNone(std::string_view input, const Status& status,
                const std::vector<std::string>& parts) {
  ExpectFault(input, status, ErrorCode::kNoUsableInterface);
  for (const std::string& part : parts) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.ToString();
  }
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
  ExpectNone("lo is down", choices.status(), {"lo", "host a"});
  EXPECT_NE(choices.status().hint().find("ip link set lo up"), std::string::npos);
}

TEST(SelectNicsTest, SaysThatLoopbackIsMissing) {
  ExpectNone("no interface", Select({{}}, {}, HostSpread::kOneMachine).status(), {"lo", "host a"});
  InterfaceFacts odd = Lo();
  odd.addresses = {{"10.1.1.1", 32}};
  ExpectNone("lo with 10.1.1.1 alone", Select({{odd}}, {}, HostSpread::kOneMachine).status(),
             {"lo", "127.0.0.1"});
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
  ExpectNone("eth0 wanted, b has lo, ens3", choices.status(), {"host b", "eth0", "lo, ens3"});
}

TEST(SelectNicsTest, SuggestsTheNearestNameForOneThatNoHostHas) {
  const auto choices =
      Select({{Lo(), Nic("eth0", "10.0.0.1")}, {Lo(), Nic("eth0", "10.0.0.2")}}, {"eht0"});
  ExpectNone("eht0 wanted", choices.status(), {"host a", "eht0", "lo, eth0"});
  EXPECT_NE(choices.status().hint().find("eth0?"), std::string::npos);
}

TEST(SelectNicsTest, SaysThatTheUsersInterfaceIsDownOrHasNoAddress) {
  InterfaceFacts down = Nic("eth0", "10.0.0.1");
  down.is_up = false;
  ExpectNone("eth0 wanted, down", Select({{down}}, {"eth0"}).status(), {"host a", "eth0 (down)"});
  InterfaceFacts bare = Nic("eth0", "10.0.0.1");
  bare.addresses.clear();
  ExpectNone("eth0 wanted, without address", Select({{bare}}, {"eth0"}).status(),
             {"host a", "eth0 (no IPv4 address)"});
}

TEST(SelectNicsTest, SaysOfAHostWithIpv6AloneThatWorkersNeedIpv4) {
  InterfaceFacts bare = Nic("eth0", "");
  bare.addresses.clear();
  const Status wanted = Select({{Lo(), Nic("eth0", "10.0.0.1")}, {Lo(), bare}}, {"eth0"}).status();
  ExpectNone("eth0 wanted, IPv6 alone on b", wanted, {"host b", "no IPv4 address on eth0"});
  EXPECT_NE(wanted.hint().find("IPv4"), std::string::npos) << wanted.hint();
  const Status chosen = Select({{Lo(), Nic("eth0", "10.0.0.1")}, {Lo(), bare}}).status();
  ExpectNone("IPv6 alone on b", chosen, {"host b", "no IPv4 address", "eth0 (no IPv4 address)"});
  EXPECT_NE(chosen.hint().find("IPv4"), std::string::npos) << chosen.hint();
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
  ExpectNone("b has nothing to reach", choices.status(), {"host b", "lo, eth1, eth0 (down)"});
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

// Random clusters: the choice is a usable interface of the host, the same each time, and does not
// depend on the order of the facts.

Cluster RandomCluster(std::mt19937_64& random) {
  const auto below = [&](int n) { return static_cast<int>(random() % n); };
  const std::vector<std::string> names = {"lo", "eth0", "eth1", "ib0", "docker0", "eth10"};
  const std::vector<std::string> nets = {"10.0.0.", "10.0.1.", "172.17.0.", "169.254.0.", "bad"};
  Cluster cluster(1 + below(5));
  for (auto& host : cluster) {
    for (const std::string& name : names) {
      if (below(3) == 0) continue;
      wire::InterfaceFacts facts{.name = name,
                                 .is_up = below(5) > 0,
                                 .is_loopback = name == "lo",
                                 .is_virtual = below(3) == 0,
                                 .speed_mbps = below(3) * 10000,
                                 .has_default_route = below(4) == 0};
      if (name == "lo") {
        facts.addresses = {{"127.0.0.1", 8}};
      } else if (below(6) > 0) {
        facts.addresses = {{nets[below(5)] + std::to_string(1 + below(4)), 8 + 8 * below(4)}};
      }
      host.push_back(std::move(facts));
    }
  }
  return cluster;
}

TEST(SelectNicsPropertyTest, ChoosesAUsableInterfaceOfEachHostOrSaysWhyNot) {
  int chosen = 0;
  for (uint64_t seed = 1; seed <= 4000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random(seed);
    Cluster cluster = RandomCluster(random);
    std::vector<std::string> wanted;
    if (random() % 3 == 0) wanted = {"ib0", "eth0"};
    const HostSpread spread =
        random() % 4 == 0 ? HostSpread::kOneMachine : HostSpread::kManyMachines;
    const auto choices = Select(cluster, wanted, spread);
    if (!choices.ok()) {
      ASSERT_EQ(choices.status().code(), ErrorCode::kNoUsableInterface);
      ASSERT_FALSE(choices.status().message().empty());
      continue;
    }
    ++chosen;
    ASSERT_EQ(choices->size(), cluster.size());
    for (size_t i = 0; i < cluster.size(); ++i) {
      const NicChoice& choice = (*choices)[i];
      const auto facts = std::find_if(cluster[i].begin(), cluster[i].end(), [&](const auto& one) {
        return one.name == choice.gloo_interface;
      });
      ASSERT_NE(facts, cluster[i].end());
      ASSERT_TRUE(facts->is_up);
      ASSERT_FALSE(facts->addresses.empty());
      if (!wanted.empty()) {
        ASSERT_NE(std::find(wanted.begin(), wanted.end(), facts->name), wanted.end());
      }
    }
    for (auto& host : cluster) std::shuffle(host.begin(), host.end(), random);
    ASSERT_EQ(*Select(cluster, wanted, spread), *choices) << "depends on the order of the facts";
  }
  EXPECT_GT(chosen, 1000) << "most cases were refused: the generator tests nothing";
}

}  // namespace
}  // namespace hvdray
