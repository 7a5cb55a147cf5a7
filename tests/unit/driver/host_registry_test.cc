// SPDX-License-Identifier: Apache-2.0
// Horovod's scenarios for hosts (test/single/test_elastic_discovery.py) and our own.
#include "launcher/driver/host_registry.h"

#include <gtest/gtest.h>

namespace hvdray {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

using Hosts = std::vector<HostSlots>;

constexpr TimePoint kStart{};

std::vector<std::string> Names(const HostRegistry& registry) {
  std::vector<std::string> names;
  for (const int host : registry.order()) names.push_back(registry.name(host));
  return names;
}

HostRegistry Registry(Hosts hosts, std::optional<CooldownRange> cooldown = std::nullopt) {
  HostRegistry registry(cooldown, 7);
  registry.Update(hosts, kStart);
  return registry;
}

int NumberOf(const HostRegistry& registry, const std::string& name) {
  for (int i = 0; i < registry.size(); ++i) {
    if (registry.name(i) == name) return i;
  }
  return -1;
}

TEST(HostRegistryTest, KeepsTheOrderOfOldHostsAndPutsNewOnesBehindThem) {
  HostRegistry registry = Registry({{"a", 1}, {"b", 1}, {"c", 1}});
  registry.Update(Hosts{{"d", 1}, {"c", 1}, {"b", 1}}, kStart);
  EXPECT_EQ(Names(registry), (std::vector<std::string>{"b", "c", "d"}));
}

TEST(HostRegistryTest, SaysWhatAListChangedAsHorovodDoes) {
  HostRegistry registry(std::nullopt, 1);
  EXPECT_EQ(registry.CountSlots(), 0);
  EXPECT_EQ(registry.Update(Hosts{{"a", 2}}, kStart), UpdateCode::kAdded);
  EXPECT_EQ(registry.Update(Hosts{{"a", 2}, {"b", 2}}, kStart), UpdateCode::kAdded);
  EXPECT_EQ(registry.CountSlots(), 4);
  EXPECT_EQ(registry.Update(Hosts{{"b", 2}}, kStart), UpdateCode::kRemoved);
  EXPECT_EQ(registry.Update(Hosts{{"b", 1}, {"c", 1}}, kStart), UpdateCode::kMixed);
  EXPECT_EQ(Names(registry), (std::vector<std::string>{"b", "c"}));
  EXPECT_EQ(registry.Update(Hosts{{"b", 1}, {"c", 1}}, kStart), UpdateCode::kNone);
  EXPECT_EQ(registry.CountSlots(), 2);
}

TEST(HostRegistryTest, TakesMoreSlotsForAddedAndFewerForRemoved) {
  HostRegistry registry = Registry({{"a", 2}});
  EXPECT_EQ(registry.Update(Hosts{{"a", 3}}, kStart), UpdateCode::kAdded);
  EXPECT_EQ(registry.Update(Hosts{{"a", 1}}, kStart), UpdateCode::kRemoved);
}

TEST(HostRegistryTest, TakesTheFirstOfTwoLinesAndNoHostWithoutRoom) {
  const HostRegistry registry = Registry({{"a", 2}, {"a", 5}, {"b", 0}});
  EXPECT_EQ(Names(registry), std::vector<std::string>{"a"});
  EXPECT_EQ(registry.CountSlots(), 2);
}

TEST(HostRegistryTest, AnotherSpellingOfANameIsTheSameHost) {
  HostRegistry registry = Registry({{"Node1", 2}});
  EXPECT_EQ(registry.Update(Hosts{{"node1.", 2}}, kStart), UpdateCode::kNone);
  EXPECT_EQ(Names(registry), std::vector<std::string>{"Node1"}) << "agents know it by that name";
  EXPECT_NE(registry.Find("node1"), nullptr);
}

TEST(HostRegistryTest, GivesAHostThatReturnsItsNumberButNotItsPlace) {
  HostRegistry registry = Registry({{"a", 1}, {"b", 1}});
  const int a = NumberOf(registry, "a");
  registry.Update(Hosts{{"b", 1}}, kStart);
  registry.Update(Hosts{{"a", 1}, {"b", 1}}, kStart);
  EXPECT_EQ(Names(registry), (std::vector<std::string>{"b", "a"}));
  EXPECT_EQ(NumberOf(registry, "a"), a);
}

TEST(HostRegistryTest, LeavesABlacklistedHostOutForEverWithoutARange) {
  HostRegistry registry = Registry({{"a", 2}, {"b", 2}});
  registry.Blacklist(NumberOf(registry, "a"), kStart);
  EXPECT_EQ(Names(registry), std::vector<std::string>{"b"});
  EXPECT_EQ(registry.CountSlots(), 2);
  EXPECT_FALSE(registry.NextExpiry().has_value());
  EXPECT_EQ(registry.Expire(kStart + std::chrono::hours(1000)), UpdateCode::kNone);
}

TEST(HostRegistryTest, BringsAHostBackAtTheEndWhenItsCooldownIsOver) {
  HostRegistry registry = Registry({{"a", 1}, {"b", 1}}, CooldownRange{seconds(1), seconds(100)});
  registry.Blacklist(NumberOf(registry, "a"), kStart);
  const TimePoint end = registry.NextExpiry().value();
  EXPECT_EQ(registry.Expire(end - milliseconds(1)), UpdateCode::kNone);
  EXPECT_EQ(registry.Expire(end), UpdateCode::kAdded);
  EXPECT_EQ(Names(registry), (std::vector<std::string>{"b", "a"}));
}

TEST(HostRegistryTest, DoublesTheCooldownAtEachFailureWithinTheRange) {
  // First failure: 2 to 3 times the lower end, by the formula in host_registry.h.
  HostRegistry registry = Registry({{"a", 1}}, CooldownRange{seconds(10), seconds(60)});
  TimePoint now = kStart;
  const std::vector<std::pair<Duration, Duration>> expected = {{seconds(20), seconds(30)},
                                                               {seconds(40), seconds(50)},
                                                               {seconds(60), seconds(60)},
                                                               {seconds(60), seconds(60)}};
  for (const auto& [least, most] : expected) {
    registry.Blacklist(0, now);
    const Duration cooldown = registry.NextExpiry().value() - now;
    EXPECT_GE(cooldown, least);
    EXPECT_LE(cooldown, most);
    now += cooldown;
    EXPECT_EQ(registry.Expire(now), UpdateCode::kAdded);
  }
}

TEST(HostRegistryTest, CountsAFailureWithinACooldownOnce) {
  HostRegistry registry = Registry({{"a", 1}}, CooldownRange{seconds(10), seconds(600)});
  registry.Blacklist(0, kStart);
  const TimePoint end = registry.NextExpiry().value();
  registry.Blacklist(0, kStart + seconds(5));
  EXPECT_EQ(registry.NextExpiry(), end);
  EXPECT_EQ(registry.host(0).failures, 1u);
}

TEST(HostRegistryTest, APardonTakesTheCooldownAndItsCountBack) {
  for (const bool has_cooldown : {false, true}) {
    HostRegistry registry =
        has_cooldown ? Registry({{"a", 1}, {"b", 1}}, CooldownRange{seconds(10), seconds(600)})
                     : Registry({{"a", 1}, {"b", 1}});
    const int a = NumberOf(registry, "a");
    EXPECT_FALSE(registry.Pardon(a));
    registry.Blacklist(a, kStart);
    EXPECT_TRUE(registry.Pardon(a));
    EXPECT_FALSE(registry.Pardon(a));
    EXPECT_EQ(Names(registry), (std::vector<std::string>{"b", "a"}));
    EXPECT_FALSE(registry.NextExpiry().has_value());
    EXPECT_EQ(registry.host(a).failures, 0u);
  }
}

TEST(HostRegistryTest, SpreadsCooldownsOfHostsThatFailTogether) {
  HostRegistry registry = Registry({{"a", 1}, {"b", 1}}, CooldownRange{seconds(10), seconds(600)});
  registry.Blacklist(0, kStart);
  registry.Blacklist(1, kStart);
  EXPECT_NE(registry.host(0).cooldown_ends, registry.host(1).cooldown_ends);
}

TEST(HostRegistryTest, LeavesOutAHostThatLeavesUntilAListWithoutIt) {
  HostRegistry registry = Registry({{"a", 1}, {"b", 1}});
  EXPECT_TRUE(registry.MarkLeaving(0));
  EXPECT_FALSE(registry.MarkLeaving(0));
  registry.Update(Hosts{{"a", 1}, {"b", 1}}, kStart);
  EXPECT_EQ(Names(registry), std::vector<std::string>{"b"});
  registry.Update(Hosts{{"b", 1}}, kStart);
  registry.Update(Hosts{{"a", 1}, {"b", 1}}, kStart);
  EXPECT_EQ(Names(registry), (std::vector<std::string>{"b", "a"}));
}

TEST(HostRegistryTest, PutsHostsInUseBeforeSpareOnes) {
  HostRegistry registry = Registry({{"spare", 1}, {"a", 1}, {"b", 1}});
  registry.PutFirst(std::vector<int>{1, 2});
  EXPECT_EQ(Names(registry), (std::vector<std::string>{"a", "b", "spare"}));
}

TEST(HostRegistryTest, ForgetsACapWhenTheSourceNamesAnotherNumber) {
  HostRegistry registry = Registry({{"a", 4}});
  registry.Cap(0, 2);
  EXPECT_EQ(registry.CountSlots(), 2);
  registry.Update(Hosts{{"a", 4}}, kStart);
  EXPECT_EQ(registry.CountSlots(), 2);
  registry.Update(Hosts{{"a", 3}}, kStart);
  EXPECT_EQ(registry.CountSlots(), 3);
}

}  // namespace
}  // namespace hvdray
