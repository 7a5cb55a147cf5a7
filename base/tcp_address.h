// SPDX-License-Identifier: Apache-2.0
// One end of a TCP connection as a plain value that compares and sorts, whatever family it was
// written in.
#ifndef HVDRAY_BASE_TCP_ADDRESS_H_
#define HVDRAY_BASE_TCP_ADDRESS_H_

#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "base/types.h"

namespace hvdray {

/// IPv4 is kept as its mapped IPv6 address: a socket of either family with the same end compares
/// equal. The scope of a link-local address is not kept.
struct TcpAddress {
  std::array<uint8_t, 16> ip{};  ///< In network order.
  uint16_t port = 0;

  /// `ip`: in network order, as in sockaddr_in; `port`: in host order, as everywhere here.
  static TcpAddress FromIpv4(uint32_t ip, uint16_t port);
  bool is_ipv4() const;
  /// In network order. Only when is_ipv4().
  uint32_t ipv4() const;
  /// No machine: "0.0.0.0" or "::".
  bool is_unspecified() const;
  /// "10.0.0.5:4711", "[fe80::1]:4711".
  std::string ToString() const;

  auto operator<=>(const TcpAddress&) const = default;
};

/// From the first bytes of a sockaddr_in or sockaddr_in6 of this machine, as getsockname() fills
/// it. nullopt: another family, or too short.
std::optional<TcpAddress> ReadSockaddr(ByteView bytes);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TCP_ADDRESS_H_
