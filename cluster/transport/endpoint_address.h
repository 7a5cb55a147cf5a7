// SPDX-License-Identifier: Apache-2.0
// The addresses at which agents dial their driver on Ray (literals: the static agent has no name
// service), the TLS identities of agent endpoints, and the TCP sockets of both ends.
#ifndef HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_ADDRESS_H_
#define HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_ADDRESS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/tcp_address.h"

namespace hvdray {

/// Highest number of an agent endpoint. Each is for one agent of the job; the driver numbers them
/// from 0.
inline constexpr int kMaxEndpoint = 999'999;

/// The TLS identity of the agent of endpoint 7: "hvdray-endpoint-7". Pure.
std::string EndpointIdentity(int endpoint);

/// Inverse of EndpointIdentity(); nullopt: not an identity. Pure.
std::optional<int> ParseEndpointIdentity(std::string_view identity);

/// Parses "10.0.0.5:4711,[fd00::5]:4711". Pure. Errors: kUsage for anything but literals with a
/// port from 1 to 65535, and for more than 16 of them.
Result<std::vector<TcpAddress>> ParseEndpointAddresses(std::string_view text);

/// Inverse of ParseEndpointAddresses(). Pure.
std::string FormatEndpointAddresses(const std::vector<TcpAddress>& addresses);

/// Parses an IPv4 or IPv6 literal without port, brackets and scope; the result's port is 0. Pure.
std::optional<TcpAddress> ParseIpLiteral(std::string_view text);

/// A non-blocking socket that listens on exactly this address and family; port 0: any free one. An
/// unspecified IPv6 address does not include IPv4. Errors: as ErrnoStatus, naming the address.
Result<UniqueFd> ListenAt(const TcpAddress& address);

/// A non-blocking socket that is connecting; writable once the attempt has ended. Errors: as
/// ListenAt().
Result<UniqueFd> BeginConnect(const TcpAddress& address);

/// The result of the attempt, once the socket is writable. Errors: as ListenAt().
Status ConnectOutcome(int socket, const TcpAddress& address);

/// The socket's local address. Errors: kSystem.
Result<TcpAddress> LocalAddress(int socket);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_TRANSPORT_ENDPOINT_ADDRESS_H_
