// SPDX-License-Identifier: Apache-2.0
#include "base/tcp_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstring>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::array<uint8_t, 12> kMappedPrefix = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};

template <typename T>
std::optional<T> Copy(ByteView bytes) {
  T copy{};
  if (bytes.size() < sizeof copy) return std::nullopt;
  std::memcpy(&copy, bytes.data(), sizeof copy);
  return copy;
}

}  // namespace

TcpAddress TcpAddress::FromIpv4(uint32_t ip, uint16_t port) {
  TcpAddress address;
  std::copy(kMappedPrefix.begin(), kMappedPrefix.end(), address.ip.begin());
  std::memcpy(address.ip.data() + kMappedPrefix.size(), &ip, sizeof ip);
  address.port = port;
  return address;
}

bool TcpAddress::is_ipv4() const {
  return std::equal(kMappedPrefix.begin(), kMappedPrefix.end(), ip.begin());
}

uint32_t TcpAddress::ipv4() const {
  uint32_t word = 0;
  std::memcpy(&word, ip.data() + kMappedPrefix.size(), sizeof word);
  return word;
}

bool TcpAddress::is_unspecified() const {
  const auto is_zero = [](uint8_t byte) { return byte == 0; };
  return is_ipv4() ? ipv4() == 0 : std::all_of(ip.begin(), ip.end(), is_zero);
}

std::string TcpAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (is_ipv4()) {
    const uint32_t word = ipv4();
    ::inet_ntop(AF_INET, &word, text, sizeof text);
    return fmt::format("{}:{}", text, port);
  }
  ::inet_ntop(AF_INET6, ip.data(), text, sizeof text);
  return fmt::format("[{}]:{}", text, port);
}

std::optional<TcpAddress> ReadSockaddr(ByteView bytes) {
  const auto family = Copy<sa_family_t>(bytes);
  if (family == AF_INET) {
    const auto end = Copy<sockaddr_in>(bytes);
    if (!end) return std::nullopt;
    return TcpAddress::FromIpv4(end->sin_addr.s_addr, ntohs(end->sin_port));
  }
  if (family != AF_INET6) return std::nullopt;
  const auto end = Copy<sockaddr_in6>(bytes);
  if (!end) return std::nullopt;
  TcpAddress address;
  std::memcpy(address.ip.data(), &end->sin6_addr, address.ip.size());
  address.port = ntohs(end->sin6_port);
  return address;
}

std::optional<uint16_t> ParsePort(std::string_view text) {
  const auto port = ParseInteger<uint16_t>(text);
  return port && *port > 0 ? port : std::nullopt;
}

bool IsLoopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1";
}

std::string HostNameKey(std::string_view name) {
  if (name.size() > 1 && name.ends_with('.')) name.remove_suffix(1);
  return Lower(name);
}

}  // namespace hvdray
