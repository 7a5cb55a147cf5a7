// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/cidr.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace hvdray {
namespace {

/// A plain decimal up to `limit`: no sign, no blanks, no leading zeros (inet_aton reads those as
/// octal, so two programs may read 010.0.0.1 as two different addresses).
std::optional<uint32_t> ParseNumber(std::string_view text, uint32_t limit) {
  if (text.empty() || text.size() > 3 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  const auto number = ParseInteger<uint32_t>(text);
  return number && *number <= limit ? number : std::nullopt;
}

uint32_t MaskOf(int prefix) { return prefix == 0 ? 0 : ~uint32_t{0} << (32 - prefix); }

Status Malformed(std::string_view item, std::string_view why) {
  return {ErrorCode::kUsage, fmt::format("'{}' is not an address range: {}", item, why),
          "write ranges as 10.1.0.0/16, separated by commas"};
}

Result<Cidr> ParseCidr(std::string_view item) {
  const size_t slash = item.find('/');
  const auto address = ParseIpv4(item.substr(0, slash));
  if (!address) return Malformed(item, "it does not begin with an IPv4 address");
  Cidr range{*address, 32};
  if (slash != std::string_view::npos) {
    const auto prefix = ParseNumber(item.substr(slash + 1), 32);
    if (!prefix) return Malformed(item, "expected a number from 0 to 32 after the /");
    range.prefix = static_cast<int>(*prefix);
  }
  if ((range.address & ~MaskOf(range.prefix)) != 0) {
    return Malformed(item, "it has bits set after its prefix");
  }
  return range;
}

}  // namespace

std::optional<uint32_t> ParseIpv4(std::string_view text) {
  uint32_t address = 0;
  for (int part = 0; part < 4; ++part) {
    const size_t dot = text.find('.');
    if ((dot == std::string_view::npos) != (part == 3)) return std::nullopt;
    const auto number = ParseNumber(text.substr(0, dot), 255);
    if (!number) return std::nullopt;
    address = address << 8 | *number;
    text.remove_prefix(part == 3 ? text.size() : dot + 1);
  }
  return address;
}

Result<std::vector<Cidr>> ParseCidrList(std::string_view list) {
  std::vector<Cidr> ranges;
  for (;;) {
    const size_t comma = list.find(',');
    HVDRAY_ASSIGN_OR_RETURN(const Cidr range, ParseCidr(Trimmed(list.substr(0, comma))));
    ranges.push_back(range);
    if (comma == std::string_view::npos) return ranges;
    list.remove_prefix(comma + 1);
  }
}

bool Contains(std::span<const Cidr> ranges, uint32_t address) {
  return std::any_of(ranges.begin(), ranges.end(), [address](const Cidr& range) {
    return (address & MaskOf(range.prefix)) == range.address;
  });
}

}  // namespace hvdray
