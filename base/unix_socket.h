// SPDX-License-Identifier: Apache-2.0
// Unix stream sockets by the paths of their files. Threads: any.
#ifndef HVDRAY_BASE_UNIX_SOCKET_H_
#define HVDRAY_BASE_UNIX_SOCKET_H_

#include <sys/un.h>

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace hvdray {

/// The address of the socket at `path`. Errors: kFileUnwritable if the path is too long for one.
Result<sockaddr_un> UnixAddress(const std::string& path);

/// Makes `fd` a socket that is connected to `path`. `flags`: SOCK_NONBLOCK or 0. Returns 0 or an
/// errno: ECONNREFUSED if nobody listens there, EAGAIN if a non-blocking one would have to wait.
int ConnectUnix(const std::string& path, UniqueFd& fd, int flags = 0);

/// `path` itself is a socket, not a link to one.
bool IsSocket(const std::string& path);

/// The same, and nobody listens there: who made it has ended without removing it. Does not block.
bool IsDeadSocket(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_UNIX_SOCKET_H_
