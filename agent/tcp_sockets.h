// SPDX-License-Identifier: Apache-2.0
// Lists the TCP sockets of a process on this machine, with their descriptors. Changes nothing.
#ifndef HVDRAY_AGENT_TCP_SOCKETS_H_
#define HVDRAY_AGENT_TCP_SOCKETS_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/tcp_table.h"

namespace hvdray {

/// A descriptor of a process that is a socket of any kind.
struct SocketDescriptor {
  int fd = -1;  ///< In that process.
  uint64_t inode = 0;
};

/// From /proc/PID/fd. Errors: kSystem if this process lacks permission (the other is not dumpable,
/// or belongs to another user), or if there is no such process.
Result<std::vector<SocketDescriptor>> ListSocketDescriptors(pid_t pid);

/// A TCP socket of a process: connected, about to connect, or listening.
struct ProcessConnection {
  int fd = -1;  ///< In that process, which may have reused the number since.
  TcpTableRow row;
  bool is_in_our_namespace = true;  ///< False: our SockDiag can't reach it.
};

/// Reads the kernel's tables once per network namespace, when first needed, and reuses them for all
/// processes. Threads: one. Blocks: some milliseconds per thousand connections of the machine.
class TcpSockets {
 public:
  /// `diag` outlives this. If it does not answer, or for a process in another network namespace,
  /// reads /proc/PID/net/tcp and tcp6.
  explicit TcpSockets(SockDiag& diag) : diag_(diag) {}

  /// Sockets in state (row.state) TCP_ESTABLISHED, TCP_SYN_SENT or TCP_LISTEN. Lists a socket that
  /// several descriptors share only once. Errors: as ListSocketDescriptors().
  Result<std::vector<ProcessConnection>> Connections(pid_t pid);

 private:
  using Table = std::unordered_map<uint64_t, TcpTableRow>;  // By inode.
  struct Namespace {
    Table table;
    bool is_ours = true;
  };
  const Namespace& NamespaceOf(pid_t pid);

  SockDiag& diag_;
  std::map<std::string, Namespace> namespaces_;  // By the link text of /proc/PID/ns/net.
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_TCP_SOCKETS_H_
