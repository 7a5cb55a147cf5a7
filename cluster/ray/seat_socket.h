// TCP sockets at both ends of an agent's way to its driver: listening and connecting.
#ifndef HVDRAY_CLUSTER_RAY_SEAT_SOCKET_H_
#define HVDRAY_CLUSTER_RAY_SEAT_SOCKET_H_

#include "base/fd.h"
#include "base/result.h"
#include "base/tcp_address.h"

namespace hvdray {

/// Non-blocking, listening at exactly this address and family; a port of 0 is any that is free. An
/// unspecified IPv6 address does not take IPv4 along. Errors: as ErrnoStatus, naming the address.
Result<UniqueFd> ListenAt(const TcpAddress& address);

/// Non-blocking, the connection under way: writable once it is decided. Errors: as ListenAt().
Result<UniqueFd> BeginConnect(const TcpAddress& address);
/// How it was decided. Errors: as ListenAt().
Status ConnectOutcome(int socket, const TcpAddress& address);

/// The local end. Errors: kSystem.
Result<TcpAddress> LocalAddress(int socket);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_SEAT_SOCKET_H_
