// SPDX-License-Identifier: Apache-2.0
// Ranges of IPv4 addresses in CIDR form, for the peers that may use a rendezvous on the network
// (--allow). Pure.
#ifndef HVDRAY_RENDEZVOUS_CIDR_H_
#define HVDRAY_RENDEZVOUS_CIDR_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hvdray {

/// "10.1.0.0/16": the addresses that begin with the first `prefix` bits of `address`.
struct Cidr {
  uint32_t address = 0;  ///< In host byte order; no bit set after the prefix.
  int prefix = 32;       ///< 0 to 32 bits.
  bool operator==(const Cidr&) const = default;
};

/// Parses "10.1.0.0/16,192.168.7.4"; an item without a prefix is that one address. Bits after the
/// prefix are an error: 10.1.2.3/16 is probably a mistake. Errors: kUsage, naming the item.
Result<std::vector<Cidr>> ParseCidrList(std::string_view list);

/// Whether any range contains `address`, in host byte order.
bool Contains(std::span<const Cidr> ranges, uint32_t address);

/// Parses "a.b.c.d", four plain decimal numbers; returns host byte order. nullopt: any other text.
std::optional<uint32_t> ParseIpv4(std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_CIDR_H_
