// Where agents dial their driver on Ray, and as whom: addresses as literals (the static agent has
// no name service), and the identities of seats. Pure.
#ifndef HVDRAY_CLUSTER_RAY_SEAT_ADDRESS_H_
#define HVDRAY_CLUSTER_RAY_SEAT_ADDRESS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tcp_address.h"

namespace hvdray {

/// A seat is a place for one agent of the job; the driver numbers them from 0.
inline constexpr int kMaxSeat = 999'999;

/// "hvdray-seat-7": the identity under which the agent of seat 7 shows itself.
std::string SeatIdentity(int seat);
/// nullopt: not what SeatIdentity() makes.
std::optional<int> ParseSeatIdentity(std::string_view identity);

/// "10.0.0.5:4711,[fd00::5]:4711". Errors: kUsage, for anything but literals with a port from 1 to
/// 65535, and for more than 16 of them.
Result<std::vector<TcpAddress>> ParseSeatAddresses(std::string_view text);

/// What the other end reads with ParseSeatAddresses().
std::string FormatSeatAddresses(const std::vector<TcpAddress>& addresses);

/// A literal without a port, IPv4 or IPv6 (no brackets, no scope); its port is 0.
std::optional<TcpAddress> ParseIpLiteral(std::string_view text);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_SEAT_ADDRESS_H_
