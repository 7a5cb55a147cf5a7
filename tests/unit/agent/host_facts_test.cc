// SPDX-License-Identifier: Apache-2.0
#include "agent/host_facts.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <vector>

#include "wire/message_codec.h"

namespace hvdray {
namespace {

int Bind(int fd, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address);
}

TEST(HeldPortTest, NobodyElseGetsItAndTorchsStoreDoes) {
  const Result<HeldPort> held = HeldPort::Hold();
  ASSERT_TRUE(held.ok());
  ASSERT_GT(held->port(), 0);
  const UniqueFd plain(::socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(Bind(plain.get(), held->port()), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  const UniqueFd store(::socket(AF_INET, SOCK_STREAM, 0));
  const int on = 1;
  ::setsockopt(store.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  EXPECT_EQ(Bind(store.get(), held->port()), 0);
  EXPECT_EQ(::listen(store.get(), 16), 0);
}

TEST(HeldPortTest, TwoThatAreHeldDiffer) {
  const Result<HeldPort> one = HeldPort::Hold();
  const Result<HeldPort> two = HeldPort::Hold();
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_NE(one->port(), two->port());
}

TEST(ParseDefaultRoutesTest, OnlyRoutesToEverywhereCount) {
  constexpr char kText[] =
      "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
      "eth0\t00000000\t0100A8C0\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
      "eth0\t0000A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
      "wg0\t00000000\t00000000\t0001\t0\t0\t0\t00000080\t0\t0\t0\n"
      "eth1\t00000000\t00000000\t0001\t0\t0\t0\t00000000\t0\t0\t0";
  EXPECT_EQ(ParseDefaultRoutes(kText), (std::set<std::string>{"eth0", "eth1"}));
}

TEST(ParseDefaultRoutesTest, NonsenseHasNone) {
  EXPECT_TRUE(ParseDefaultRoutes("").empty());
  EXPECT_TRUE(ParseDefaultRoutes("Iface\n\n\neth0 00000000\n\t\t\t\n").empty());
}

TEST(HostFactsTest, FactsOfThisHostAreThere) {
  const wire::HostFacts facts = GatherHostFacts();
  char name[256] = "";
  ASSERT_EQ(::gethostname(name, sizeof name), 0);
  EXPECT_EQ(facts.host_name, name);
  EXPECT_EQ(facts.system, "Linux");
  EXPECT_FALSE(facts.machine.empty());
  EXPECT_GE(facts.cpu_count, 1U);
  EXPECT_EQ(facts.agent_pid, static_cast<uint32_t>(::getpid()));
  EXPECT_GT(facts.open_file_limit, 0U);
}

wire::InterfaceFacts Named(const std::string& name, size_t addresses = 1) {
  wire::InterfaceFacts facts;
  facts.name = name;
  facts.is_up = true;
  facts.is_virtual = name.starts_with("veth");
  facts.is_loopback = name == "lo";
  facts.addresses.assign(addresses, {"255.255.255.255", 32});
  return facts;
}

TEST(KeepWithinHelloTest, WhatMattersStaysInItsOrder) {
  std::vector<wire::InterfaceFacts> all;
  for (int i = 0; i < 5000; ++i) all.push_back(Named("veth" + std::to_string(i)));
  all.push_back(Named("eth7"));
  all.push_back(Named("lo"));
  all.push_back(Named("veth-out"));
  all.back().has_default_route = true;
  const auto kept = KeepWithinHello(all);
  ASSERT_EQ(kept.size(), kMaxInterfaces);
  EXPECT_EQ(kept[0].name, "veth0");
  EXPECT_EQ(kept[kMaxInterfaces - 3].name, "eth7");
  EXPECT_EQ(kept[kMaxInterfaces - 2].name, "lo");
  EXPECT_EQ(kept[kMaxInterfaces - 1].name, "veth-out");
}

TEST(KeepWithinHelloTest, EachKeepsItsFirstAddressAndFewAreAsTheyWere) {
  const std::vector<wire::InterfaceFacts> few{Named("lo"), Named("eth0", 3)};
  EXPECT_EQ(KeepWithinHello(few), few);
  const auto kept = KeepWithinHello({Named("veth0", 1000), Named("eth0", 2000), Named("lo", 0)});
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[0].addresses.size(), 1U);
  EXPECT_EQ(kept[1].addresses.size(), kMaxInterfaceAddresses - 2);
  EXPECT_TRUE(kept[2].addresses.empty());
}

TEST(KeepWithinHelloTest, TheLargestThatIsLeftFitsAHello) {
  std::vector<wire::InterfaceFacts> all;
  for (size_t i = 0; i < 2 * kMaxInterfaces; ++i) all.push_back(Named("\x01longest-name", 9));
  wire::Hello hello;
  hello.facts.interfaces = KeepWithinHello(all);
  hello.facts.host_name = std::string(64, 'h');
  EXPECT_TRUE(wire::EncodeMessage({0, hello}, wire::kMaxVersion).ok());
}

/// In a network of its own, for the child of fork: 0 if an interface with IPv6 alone is listed.
int ListIpv6Alone() {
  constexpr const char* kSetUp =
      "ip link add d0 type veth peer name d1 && ip link set d0 up && ip link set d1 up && "
      "ip -6 addr add fd00::5/64 dev d0 nodad";
  if (::unshare(CLONE_NEWNET) != 0 || std::system(kSetUp) != 0) return 77;
  const auto interfaces = ListInterfaces();
  const auto found = std::find_if(interfaces.begin(), interfaces.end(),
                                  [](const auto& facts) { return facts.name == "d0"; });
  if (found == interfaces.end()) return 1;
  const bool has_other = std::any_of(interfaces.begin(), interfaces.end(),
                                     [](const auto& facts) { return facts.name == "d1"; });
  return found->is_up && found->addresses.empty() && !has_other ? 0 : 2;
}

TEST(HostFactsTest, AnInterfaceWithIpv6AloneIsListedWithoutAddress) {
  if (::geteuid() != 0) GTEST_SKIP() << "a network of its own needs root";
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ListIpv6Alone());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no network of its own here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: not listed, 2: not so";
}

TEST(HostFactsTest, LoopbackIsKnownForWhatItIs) {
  const auto interfaces = ListInterfaces();
  const auto lo = std::find_if(interfaces.begin(), interfaces.end(),
                               [](const auto& facts) { return facts.name == "lo"; });
  ASSERT_NE(lo, interfaces.end());
  EXPECT_TRUE(lo->is_loopback);
  EXPECT_FALSE(lo->is_virtual);
  EXPECT_FALSE(lo->has_default_route);
  ASSERT_FALSE(lo->addresses.empty());
  EXPECT_EQ(lo->addresses[0], (wire::InterfaceAddress{"127.0.0.1", 8}));
}

}  // namespace
}  // namespace hvdray
