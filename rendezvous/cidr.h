// Ranges of IPv4 addresses in CIDR form: who may reach a rendezvous that listens to the network.
// Pure.
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
  uint32_t address = 0;  ///< In host order; no bit set behind the prefix.
  int prefix = 32;       ///< 0 to 32.
  bool operator==(const Cidr&) const = default;
};

/// "10.1.0.0/16,192.168.7.4": a range each; without a prefix, that one address. Bits behind the
/// prefix are an error: who writes 10.1.2.3/16 has meant something else.
/// Errors: kUsage, naming the item.
Result<std::vector<Cidr>> ParseCidrList(std::string_view list);

/// `address` in host order.
bool Contains(std::span<const Cidr> ranges, uint32_t address);

/// "a.b.c.d" with four plain decimal numbers, in host order. nullopt: anything else.
std::optional<uint32_t> ParseIpv4(std::string_view text);

inline bool IsLoopback(uint32_t address) { return (address >> 24) == 127; }

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_CIDR_H_
