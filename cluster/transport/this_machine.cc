// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/this_machine.h"

#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/name_service.h"
#include "base/tcp_address.h"

namespace hvdray {
namespace {

// A failing lookup may take seconds; in parallel, a hundred of them don't take minutes.
constexpr size_t kLookupThreads = 32;

bool IsSameAddress(const sockaddr* a, const sockaddr* b) {
  if (a->sa_family != b->sa_family) return false;
  if (a->sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in*>(a)->sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(b)->sin_addr.s_addr;
  }
  if (a->sa_family != AF_INET6) return false;
  return std::memcmp(&reinterpret_cast<const sockaddr_in6*>(a)->sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(b)->sin6_addr, sizeof(in6_addr)) == 0;
}

bool IsOnAnInterface(const sockaddr* address) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(list, &::freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr != nullptr && IsSameAddress(address, entry->ifa_addr)) return true;
  }
  return false;
}

bool IsOnLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(address);
    return IsLoopback(ntohl(v4->sin_addr.s_addr));
  }
  if (address->sa_family != AF_INET6) return false;
  return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
}

/// Null: the name is unknown.
AddressList Addresses(const std::string& host, NameLookup lookup) {
  return (lookup == NameLookup::kNone ? ParseHost(host, 0) : FindHost(host, 0)).value_or(nullptr);
}

bool IsThisMachineBy(const std::string& host, NameLookup lookup) {
  const std::string key = HostNameKey(host);
  if (key == "localhost") return true;
  std::array<char, 256> own{};
  if (::gethostname(own.data(), own.size() - 1) == 0 && key == HostNameKey(own.data())) return true;
  const AddressList found = Addresses(host, lookup);
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    if (IsOnLoopback(entry->ai_addr) || IsOnAnInterface(entry->ai_addr)) return true;
  }
  return false;
}

}  // namespace

bool IsThisMachine(const std::string& host) { return IsThisMachineBy(host, NameLookup::kSystem); }

std::vector<bool> AreThisMachine(const std::vector<std::string>& hosts, NameLookup lookup) {
  // Not vector<bool>, whose elements share bytes: threads write neighbouring elements.
  std::vector<char> answers(hosts.size(), 0);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < hosts.size(); i = next++) {
      answers[i] = IsThisMachineBy(hosts[i], lookup) ? 1 : 0;
    }
  };
  const size_t count = lookup == NameLookup::kNone ? 1 : std::min(hosts.size(), kLookupThreads);
  std::vector<std::thread> threads;
  for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  work();
  for (std::thread& thread : threads) thread.join();
  return {answers.begin(), answers.end()};
}

std::vector<std::string> AddressesOf(const std::string& host) {
  std::vector<std::string> addresses;
  const AddressList found = Addresses(host, NameLookup::kSystem);
  for (const addrinfo* entry = found.get(); entry != nullptr; entry = entry->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

}  // namespace hvdray
