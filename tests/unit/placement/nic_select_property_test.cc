// SPDX-License-Identifier: Apache-2.0
// Random clusters: whatever the facts are, the choice is one of the host's own usable interfaces,
// the same each time, and does not hang on the order in which facts are listed.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "launcher/job/nic_select.h"

namespace hvdray {
namespace {

using Cluster = std::vector<std::vector<wire::InterfaceFacts>>;

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

Result<std::vector<NicChoice>> Select(const Cluster& cluster,
                                      const std::vector<std::string>& wanted, HostSpread spread) {
  std::vector<HostNics> hosts;
  for (size_t i = 0; i < cluster.size(); ++i) hosts.push_back({std::to_string(i), cluster[i]});
  return SelectNics(hosts, wanted, spread);
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
