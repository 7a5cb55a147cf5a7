// SPDX-License-Identifier: Apache-2.0
// The kernel's table of TCP sockets: asked by sock_diag, or read from /proc/net/tcp where that is
// missing. Knows which sockets there are, not whose processes have them open.
#ifndef HVDRAY_BASE_TCP_TABLE_H_
#define HVDRAY_BASE_TCP_TABLE_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/tcp_address.h"

namespace hvdray {

/// One socket of a network namespace.
struct TcpTableRow {
  TcpAddress local;
  TcpAddress remote;
  uint8_t state = 0;   ///< TCP_ESTABLISHED and others of <netinet/tcp.h>.
  uid_t uid = 0;       ///< Means nothing when inode is 0.
  uint64_t inode = 0;  ///< 0: no process has it open any more.
  // What tells the kernel exactly this socket; only in rows of SockDiag.
  uint8_t family = 0;
  uint32_t interface = 0;
  std::array<uint32_t, 2> cookie{};
};

/// Questions to sock_diag about the network namespace in which it was made. Threads: one. Blocks
/// for some microseconds, List() for about a millisecond per thousand sockets. Source:
/// sock_diag(7).
class SockDiag {
 public:
  SockDiag();
  bool is_open() const { return socket_.is_valid(); }

  enum class Answer : uint8_t { kFound, kNoSuchSocket, kNoAnswer };
  /// The one IPv4 connection with these ends.
  Answer Find(const TcpAddress& local, const TcpAddress& remote, TcpTableRow* row);

  /// All sockets in one of `states` (bits 1 << TCP_ESTABLISHED, ...), IPv4 and IPv6. Errors: the
  /// kernel's, when it has no sock_diag for TCP.
  Result<std::vector<TcpTableRow>> List(uint32_t states);

  /// Ends exactly that connection, a row of List() or Find(): both its sides see a reset (Linux
  /// 4.5). Returns 0 or the errno: EPERM without CAP_NET_ADMIN, ENOENT when it is gone already,
  /// EOPNOTSUPP when the kernel was built without it.
  int Destroy(const TcpTableRow& row);

 private:
  int ListFamily(uint8_t family, uint32_t states, std::vector<TcpTableRow>* rows);
  bool Send(uint16_t type, uint16_t flags, const TcpTableRow& row, uint32_t states);

  UniqueFd socket_;  // one netlink socket for all questions; invalid: not to be had
  uint32_t sequence_ = 0;
};

/// Calls `take` for each row of the text of /proc/net/tcp or tcp6 until it returns false. Malformed
/// and cut lines are skipped. Pure.
void ReadProcNetTcp(std::string_view text, const std::function<bool(const TcpTableRow&)>& take);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TCP_TABLE_H_
