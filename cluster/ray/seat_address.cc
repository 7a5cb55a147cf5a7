#include "cluster/ray/seat_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>
#include <cstring>

namespace hvdray {
namespace {

constexpr std::string_view kPrefix = "hvdray-seat-";
constexpr size_t kMaxAddresses = 16;

/// Digits only, no leading zero, within the range.
std::optional<int> ParseNumber(std::string_view text, int lowest, int highest) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || text[0] == '-') {
    return std::nullopt;
  }
  if (number < lowest || number > highest) return std::nullopt;
  return number;
}

std::optional<TcpAddress> ParseOne(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (is_bracketed != (host.find(':') != std::string_view::npos)) return std::nullopt;
  const std::optional<int> port = ParseNumber(text.substr(colon + 1), 1, 65535);
  std::optional<TcpAddress> address = ParseIpLiteral(host);
  if (!port || !address || address->is_unspecified()) return std::nullopt;
  address->port = static_cast<uint16_t>(*port);
  return address;
}

}  // namespace

std::string SeatIdentity(int seat) { return fmt::format("{}{}", kPrefix, seat); }

std::optional<int> ParseSeatIdentity(std::string_view identity) {
  if (!identity.starts_with(kPrefix)) return std::nullopt;
  return ParseNumber(identity.substr(kPrefix.size()), 0, kMaxSeat);
}

std::optional<TcpAddress> ParseIpLiteral(std::string_view text) {
  const std::string literal(text);
  if (literal.size() != ::strlen(literal.c_str())) return std::nullopt;
  in_addr ipv4{};
  if (::inet_pton(AF_INET, literal.c_str(), &ipv4) == 1) {
    return TcpAddress::FromIpv4(ipv4.s_addr, 0);
  }
  TcpAddress address;
  static_assert(sizeof(in6_addr) == sizeof address.ip);
  if (::inet_pton(AF_INET6, literal.c_str(), address.ip.data()) == 1) return address;
  return std::nullopt;
}

Result<std::vector<TcpAddress>> ParseSeatAddresses(std::string_view text) {
  std::vector<TcpAddress> addresses;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::optional<TcpAddress> address = ParseOne(item);
    if (!address || addresses.size() == kMaxAddresses) {
      return Status(ErrorCode::kUsage,
                    address ? fmt::format("more than {} addresses", kMaxAddresses)
                            : fmt::format("'{}' is no address to dial", item),
                    "an IP literal with a port: 10.0.0.5:4711, [fd00::5]:4711");
    }
    addresses.push_back(*address);
    if (comma == std::string_view::npos) return addresses;
    text.remove_prefix(comma + 1);
  }
}

std::string FormatSeatAddresses(const std::vector<TcpAddress>& addresses) {
  std::string text;
  for (const TcpAddress& address : addresses) {
    if (!text.empty()) text += ',';
    text += address.ToString();
  }
  return text;
}

}  // namespace hvdray
