// SPDX-License-Identifier: Apache-2.0
// The kernel's table of TCP sockets, by sock_diag(7) or, where that is missing, from /proc/net/tcp.
// It lists sockets, not the processes that have them open.
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
  uid_t uid = 0;       ///< Meaningless if inode is 0.
  uint64_t inode = 0;  ///< 0: no process has it open any more.
  // Identify exactly this socket to the kernel. SockDiag sets them.
  uint8_t family = 0;
  uint32_t interface = 0;
  std::array<uint32_t, 2> cookie{};
};

/// Queries sock_diag about the network namespace in which it was made. Owns a netlink socket.
/// Threads: one at a time. Blocks for microseconds; List() for about 1 ms per 1,000 sockets.
class SockDiag {
 public:
  SockDiag();
  /// False: the kernel offers no such socket, and every query fails.
  bool is_open() const { return socket_.is_valid(); }

  enum class Answer : uint8_t { kFound, kNoSuchSocket, kNoAnswer };
  /// Looks up the IPv4 connection with these ends. kFound: fills `row`. kNoAnswer: the kernel did
  /// not say.
  Answer Find(const TcpAddress& local, const TcpAddress& remote, TcpTableRow* row);

  /// All IPv4 and IPv6 sockets in one of `states` (bits: 1 << TCP_ESTABLISHED, ...). Errors: the
  /// errno of a kernel without sock_diag for TCP.
  Result<std::vector<TcpTableRow>> List(uint32_t states);

  /// Resets that connection, a row from List() or Find(), on both sides (Linux 4.5). Returns 0 or
  /// the errno: EPERM without CAP_NET_ADMIN, ENOENT if it has ended, EOPNOTSUPP if the kernel was
  /// built without this.
  int Destroy(const TcpTableRow& row);

 private:
  int ListFamily(uint8_t family, uint32_t states, std::vector<TcpTableRow>* rows);
  bool Send(uint16_t type, uint16_t flags, const TcpTableRow& row, uint32_t states);

  UniqueFd socket_;  // for all queries
  uint32_t sequence_ = 0;
};

/// Calls `take` for each row of /proc/net/tcp or tcp6, given as `text`, until it returns false.
/// Skips malformed and cut lines. Pure.
void ReadProcNetTcp(std::string_view text, const std::function<bool(const TcpTableRow&)>& take);

}  // namespace hvdray

#endif  // HVDRAY_BASE_TCP_TABLE_H_
