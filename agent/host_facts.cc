// SPDX-License-Identifier: Apache-2.0
#include "agent/host_facts.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "agent/cgroup.h"
#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

constexpr size_t kMaxCpus = 65536;

uint32_t CountCpus() {
  // The mask must be at least as large as the kernel's, whose size no call reports.
  for (size_t count = 1024; count <= kMaxCpus; count *= 2) {
    cpu_set_t* set = CPU_ALLOC(count);
    const size_t size = CPU_ALLOC_SIZE(count);
    const bool is_known = set != nullptr && ::sched_getaffinity(0, size, set) == 0;
    const int found = is_known ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (is_known) return static_cast<uint32_t>(found);
  }
  return static_cast<uint32_t>(std::max(1L, ::sysconf(_SC_NPROCESSORS_ONLN)));
}

bool AskEthtool(int socket, const std::string& name, void* answer) {
  ifreq request{};
  name.copy(request.ifr_name, IFNAMSIZ - 1);
  request.ifr_data = static_cast<char*>(answer);
  return ::ioctl(socket, SIOCETHTOOL, &request) == 0;
}

// Asks the driver, not /sys, which shows another network namespace than ours unless it was mounted
// anew. A device without a bus is software; a bond or VLAN counts as the hardware below it.
bool IsVirtual(int socket, const std::string& name) {
  ethtool_drvinfo info{};
  info.cmd = ETHTOOL_GDRVINFO;
  if (!AskEthtool(socket, name, &info)) return true;
  const std::string_view driver(info.driver, ::strnlen(info.driver, sizeof info.driver));
  const std::string_view bus(info.bus_info, ::strnlen(info.bus_info, sizeof info.bus_info));
  if (driver == "bonding" || driver == "team" || driver.starts_with("802.1Q")) return false;
  return bus.empty() || bus == "N/A" || bus == "tap" || bus == "tun";
}

int64_t SpeedMbps(int socket, const std::string& name) {
  ethtool_cmd settings{};
  settings.cmd = ETHTOOL_GSET;
  if (!AskEthtool(socket, name, &settings)) return 0;
  const uint32_t speed = ethtool_cmd_speed(&settings);
  return speed == static_cast<uint32_t>(SPEED_UNKNOWN) || speed == 0xffff ? 0 : int64_t{speed};
}

wire::InterfaceAddress ToAddress(const ifaddrs& entry) {
  wire::InterfaceAddress address;
  char text[INET_ADDRSTRLEN] = "";
  const auto* own = reinterpret_cast<const sockaddr_in*>(entry.ifa_addr);
  ::inet_ntop(AF_INET, &own->sin_addr, text, sizeof text);
  address.address = text;
  if (entry.ifa_netmask != nullptr) {
    const auto* mask = reinterpret_cast<const sockaddr_in*>(entry.ifa_netmask);
    address.prefix_length = std::popcount(mask->sin_addr.s_addr);
  }
  return address;
}

}  // namespace

Result<HeldPort> HeldPort::Hold() {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (::bind(fd.get(), generic, size) != 0) return ErrnoStatus("bind", errno);
  if (::getsockname(fd.get(), generic, &size) != 0) return ErrnoStatus("getsockname", errno);
  return HeldPort(std::move(fd), ntohs(address.sin_port));
}

std::set<std::string> ParseDefaultRoutes(std::string_view route) {
  std::set<std::string> names;
  constexpr size_t kDestination = 1;
  constexpr size_t kFlags = 3;
  constexpr size_t kMask = 7;
  bool is_header = true;
  for (const std::string_view line : LinesOf(route)) {
    const auto words = BlankSeparated(line);
    const bool is_route = !std::exchange(is_header, false) && words.size() > kMask;
    if (is_route && words[kDestination] == "00000000" && words[kMask] == "00000000" &&
        words[kFlags] != "0000") {
      names.emplace(words[0]);
    }
  }
  return names;
}

namespace {

/// Link-local ones do not count: every link has one.
bool IsGlobalIpv6(const sockaddr* address) {
  if (address == nullptr || address->sa_family != AF_INET6) return false;
  return !IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

}  // namespace

std::vector<wire::InterfaceFacts> ListInterfaces() {
  std::vector<wire::InterfaceFacts> interfaces;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return interfaces;
  const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto defaults =
      ParseDefaultRoutes(ReadFile("/proc/net/route", size_t{1} << 20).value_or(""));
  std::map<std::string, size_t, std::less<>> places;  // Name -> index into `interfaces`.
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_name == nullptr) continue;
    const bool is_up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0;
    const bool is_loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    const bool is_address = entry->ifa_addr != nullptr && entry->ifa_addr->sa_family == AF_INET;
    // Without an IPv4 address it is of no use, but messages must be able to say so.
    if (!is_loopback && (!is_up || !(is_address || IsGlobalIpv6(entry->ifa_addr)))) continue;
    // An address with a label ("eth0:1") belongs to the interface before the colon.
    std::string name = entry->ifa_name;
    name.resize(std::min(name.find(':'), name.size()));
    const auto [place, is_new] = places.emplace(name, interfaces.size());
    if (is_new) {
      wire::InterfaceFacts& facts = interfaces.emplace_back();
      facts.name = name;
      facts.is_up = is_up;
      facts.is_loopback = is_loopback;
      facts.is_virtual = !is_loopback && IsVirtual(socket.get(), name);
      facts.speed_mbps = SpeedMbps(socket.get(), name);
      facts.has_default_route = defaults.contains(name);
    }
    if (is_address) interfaces[place->second].addresses.push_back(ToAddress(*entry));
  }
  ::freeifaddrs(list);
  return KeepWithinHello(std::move(interfaces));
}

std::vector<wire::InterfaceFacts> KeepWithinHello(std::vector<wire::InterfaceFacts> interfaces) {
  const auto is_within = [](size_t count, size_t addresses) {
    return count <= kMaxInterfaces && addresses <= kMaxInterfaceAddresses;
  };
  std::vector<size_t> order(interfaces.size());
  size_t addresses = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
    addresses += interfaces[i].addresses.size();
  }
  if (is_within(interfaces.size(), addresses)) return interfaces;
  const auto worth = [&](size_t i) {
    const wire::InterfaceFacts& facts = interfaces[i];
    return std::tuple(facts.is_loopback, facts.has_default_route, !facts.is_virtual);
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return worth(a) > worth(b); });
  order.resize(std::min(order.size(), kMaxInterfaces));
  // Each keeps its first address, which Gloo uses; further ones share the remaining room.
  size_t room = kMaxInterfaceAddresses - order.size();
  for (const size_t i : order) {
    std::vector<wire::InterfaceAddress>& own = interfaces[i].addresses;
    const size_t more = own.empty() ? 0 : std::min(room, own.size() - 1);
    own.resize(std::min(own.size(), 1 + more));
    room -= more;
  }
  std::sort(order.begin(), order.end());
  std::vector<wire::InterfaceFacts> kept;
  kept.reserve(order.size());
  for (const size_t i : order) kept.push_back(std::move(interfaces[i]));
  return kept;
}

wire::HostFacts GatherHostFacts() {
  wire::HostFacts facts;
  utsname names{};
  if (::uname(&names) == 0) {
    facts.host_name = names.nodename;
    facts.machine = names.machine;
    facts.system = names.sysname;
  }
  // A container usually sees all CPUs, and has the time of some.
  const uint32_t cpus = CountCpus();
  facts.cpu_count = std::min(cpus, OwnCpuQuota().value_or(cpus));
  facts.agent_pid = static_cast<uint32_t>(::getpid());
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) == 0) facts.open_file_limit = files.rlim_max;
  facts.interfaces = ListInterfaces();
  return facts;
}

}  // namespace hvdray
