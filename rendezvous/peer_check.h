// SPDX-License-Identifier: Apache-2.0
// Finds the owner of the other end of a loopback connection: only the job's user and root may use
// the rendezvous. Asks the kernel; must never mistake an unknown owner for root.
// docs/rendezvous.md, "Who may speak".
#ifndef HVDRAY_RENDEZVOUS_PEER_CHECK_H_
#define HVDRAY_RENDEZVOUS_PEER_CHECK_H_

#include <netinet/in.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/tcp_table.h"
#include "base/types.h"

namespace hvdray {

/// The result of a check; only kAccepted admits the peer.
enum class PeerVerdict : uint8_t {
  kAccepted,   ///< The socket is open and belongs to the user or to root.
  kOtherUser,  ///< It belongs to another user.
  kGone,       ///< No process has it open any more: inode 0, or no such socket.
  kNotLocal,   ///< One end is not in 127.0.0.0/8: its owner can't be determined.
  kUnknown,    ///< The kernel supports neither query (see --no-peer-check).
};

/// The kernel's entry for one socket. inode 0: its owner has closed it, and `uid` is meaningless.
struct SocketOwner {
  uid_t uid = 0;
  uint64_t inode = 0;
};

/// Checks accepted connections. Threads: one. Blocks: for microseconds; the fallback for
/// milliseconds.
class PeerChecker {
 public:
  /// `user`: the job's user, accepted along with root.
  explicit PeerChecker(uid_t user);

  /// remote, local: the ends of an accepted connection, as its server sees them.
  PeerVerdict Check(const sockaddr_in& remote, const sockaddr_in& local);

  /// The same by /proc/net/tcp and tcp6 only; Check()'s fallback where sock_diag is missing.
  PeerVerdict CheckByProc(const sockaddr_in& remote, const sockaddr_in& local) const;

 private:
  PeerVerdict Judge(const SocketOwner& owner) const;

  uid_t user_;
  SockDiag diag_;
};

/// Finds the socket `from` -> `to` in the text of /proc/net/tcp, or tcp6, which shows IPv4 ends as
/// mapped addresses. nullopt: no such socket. Skips malformed lines. Pure.
std::optional<SocketOwner> FindInProcNetTcp(std::string_view text, const sockaddr_in& from,
                                            const sockaddr_in& to);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_PEER_CHECK_H_
