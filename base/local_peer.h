// SPDX-License-Identifier: Apache-2.0
// Whose process serves the other end of a TCP connection, if that is on this machine: a port of
// loopback says nothing about it, since any user may listen there. rendezvous/peer_check.h asks the
// same of clients.
#ifndef HVDRAY_BASE_LOCAL_PEER_H_
#define HVDRAY_BASE_LOCAL_PEER_H_

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "base/tcp_address.h"
#include "base/tcp_table.h"

namespace hvdray {

/// Where the server of a connection is, and whose it is.
struct LocalPeer {
  enum class Kind : uint8_t {
    kElsewhere,  ///< On another machine, or behind a translation of addresses, which only root
                 ///< makes.
    kTrusted,    ///< A process of the user or of root.
    kOtherUser,  ///< A process of `uid`.
    kUnknown,    ///< On this machine, and the kernel does not say whose.
  };
  Kind kind = Kind::kUnknown;
  uid_t uid = 0;
};

/// For a connected socket; our user is the effective one. Blocks as SockDiag::List() does.
LocalPeer FindLocalPeer(int fd);

/// The same from the kernel's table, read after the connection was made. local, remote: its ends,
/// as the client sees them, both on this machine. Pure.
LocalPeer JudgeLocalPeer(std::span<const TcpTableRow> table, const TcpAddress& local,
                         const TcpAddress& remote, uid_t user);

}  // namespace hvdray

#endif  // HVDRAY_BASE_LOCAL_PEER_H_
