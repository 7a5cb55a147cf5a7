// Which TCP connections a process of this machine has open, and under which descriptors. Looks
// only; touches nothing.
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

/// From /proc/PID/fd. Errors: kSystem when this process may not look (the other is not dumpable, or
/// another user's), or when there is no such process.
Result<std::vector<SocketDescriptor>> ListSocketDescriptors(pid_t pid);

/// A TCP socket of a process: connected, about to connect, or listening.
struct ProcessConnection {
  int fd = -1;  ///< In that process; by the time of use it may mean something else.
  TcpTableRow row;
  bool is_in_our_namespace = true;  ///< false: no SockDiag of ours can speak of it.
};

/// One look at the kernel's tables, taken when first needed and used for all processes after that.
/// Threads: one. Blocks: some milliseconds per thousand connections of the machine.
class TcpSockets {
 public:
  /// `diag` must stay; where it does not answer, /proc/PID/net/tcp and tcp6 do, as they do for a
  /// process in another network namespace.
  explicit TcpSockets(SockDiag& diag) : diag_(diag) {}

  /// Those in one of the three states (row.state): TCP_ESTABLISHED, TCP_SYN_SENT, TCP_LISTEN.
  /// A socket that several descriptors share is named once. Errors: as ListSocketDescriptors.
  Result<std::vector<ProcessConnection>> ConnectionsOf(pid_t pid);

 private:
  using Table = std::unordered_map<uint64_t, TcpTableRow>;  // by inode
  struct Namespace {
    Table table;
    bool is_ours = true;
  };
  const Namespace& NamespaceOf(pid_t pid);

  SockDiag& diag_;
  std::map<std::string, Namespace> namespaces_;  // by the name of /proc/PID/ns/net
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_TCP_SOCKETS_H_
