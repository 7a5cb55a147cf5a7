// SPDX-License-Identifier: Apache-2.0
// One end of a TCP connection as a plain value; its parts.
#ifndef HVDRAY_BASE_TCP_ADDRESS_H_
#define HVDRAY_BASE_TCP_ADDRESS_H_

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/types.h"

namespace hvdray {

/// Compares and sorts, whatever family the address came in: an IPv4 address is stored as its mapped
/// IPv6 address. Does not keep the scope of a link-local address.
struct TcpAddress {
  std::array<uint8_t, 16> ip{};  ///< In network order.
  uint16_t port = 0;             ///< In host order.

  /// `ip`: in network order, as in sockaddr_in. `port`: in host order.
  static TcpAddress FromIpv4(uint32_t ip, uint16_t port);
  bool is_ipv4() const;
  /// In network order. Only if is_ipv4().
  uint32_t ipv4() const;
  /// "0.0.0.0" or "::".
  bool is_unspecified() const;
  /// "10.0.0.5:4711", "[fe80::1]:4711".
  std::string ToString() const;

  auto operator<=>(const TcpAddress&) const = default;
};

/// Reads a sockaddr_in or sockaddr_in6, as getsockname() fills it, from the start of `bytes`.
/// nullopt: another family, or too short. Pure.
std::optional<TcpAddress> ReadSockaddr(ByteView bytes);

/// The port of "2222"; nullopt unless from 1 to 65535. Pure.
std::optional<uint16_t> ParsePort(std::string_view text);

/// 127.0.0.0/8; `address` in host byte order.
constexpr bool IsLoopback(uint32_t address) { return (address >> 24) == 127; }
/// The same for an address as text, or "::1". No name is one, not even "localhost".
bool IsLoopback(std::string_view address);

/// Equal for names of one host: `name` in lower case, without the dot that ends a full domain name.
/// Pure.
std::string HostNameKey(std::string_view name);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TCP_ADDRESS_H_
