// Who owns the other end of a loopback connection: only the job's user and root may speak to the
// rendezvous. Asks the kernel; must never take "nobody known" for root.
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

enum class PeerVerdict : uint8_t {
  kAccepted,   ///< The socket is open and belongs to the user or to root.
  kOtherUser,  ///< It belongs to somebody else.
  kGone,       ///< No process has it open any more: inode 0, or no such socket.
  kNotLocal,   ///< One of the ends is not in 127.0.0.0/8: nothing can be said.
  kUnknown,    ///< The kernel answers neither way (see --no-peer-check).
};

/// What the kernel says about one socket. inode 0: closed by its owner; then `uid` means nothing.
struct SocketOwner {
  uid_t uid = 0;
  uint64_t inode = 0;
};

/// Threads: one. Blocks: for some microseconds; the fallback for milliseconds.
class PeerChecker {
 public:
  /// `user`: the job's.
  explicit PeerChecker(uid_t user);

  /// remote, local: the ends of an accepted connection, as its server sees them.
  PeerVerdict Check(const sockaddr_in& remote, const sockaddr_in& local);

  /// The way over /proc/net/tcp and tcp6 alone, which Check() takes where sock_diag is missing.
  PeerVerdict CheckByProc(const sockaddr_in& remote, const sockaddr_in& local) const;

 private:
  PeerVerdict Judge(const SocketOwner& owner) const;

  uid_t user_;
  SockDiag diag_;
};

/// Looks the socket `from` -> `to` up in the text of /proc/net/tcp (or tcp6, where IPv4 ends are
/// written as mapped addresses). Pure. nullopt: not there; malformed lines are skipped.
std::optional<SocketOwner> FindInProcNetTcp(std::string_view text, const sockaddr_in& from,
                                            const sockaddr_in& to);

}  // namespace hvdray

#endif  // HVDRAY_RENDEZVOUS_PEER_CHECK_H_
