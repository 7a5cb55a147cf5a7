// SPDX-License-Identifier: Apache-2.0
#include "base/local_peer.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/fd.h"

namespace hvdray {
namespace {

using Kind = LocalPeer::Kind;
using Ask = int (*)(int, sockaddr*, socklen_t*);

std::optional<TcpAddress> EndOf(int fd, Ask ask) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (ask(fd, reinterpret_cast<sockaddr*>(&end), &size) != 0) return std::nullopt;
  return ReadSockaddr(ByteView(reinterpret_cast<const char*>(&end), size));
}

bool IsOnLoopback(const TcpAddress& end) {
  if (end.is_ipv4()) return IsLoopback(ntohl(end.ipv4()));
  TcpAddress loopback;
  loopback.ip.back() = 1;
  return end.ip == loopback.ip;
}

std::optional<std::vector<TcpTableRow>> Table() {
  constexpr uint32_t kEveryState = ~0U;
  Result<std::vector<TcpTableRow>> rows = SockDiag().List(kEveryState);
  if (rows.ok()) return std::move(rows).value();
  std::vector<TcpTableRow> read;
  bool is_readable = false;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    const std::string text = ReadFile(path).value_or("");
    is_readable = is_readable || !text.empty();
    ReadProcNetTcp(text, [&read](const TcpTableRow& row) {
      read.push_back(row);
      return true;
    });
  }
  if (!is_readable) return std::nullopt;
  return read;
}

bool MayListenFor(const TcpTableRow& row, const TcpAddress& end) {
  if (row.state != TCP_LISTEN || row.local.port != end.port) return false;
  if (row.local.ip == end.ip) return true;
  // "::" may listen for both families; the table does not say whether it does.
  return row.local.is_unspecified() && (end.is_ipv4() || !row.local.is_ipv4());
}

}  // namespace

LocalPeer JudgeLocalPeer(std::span<const TcpTableRow> table, const TcpAddress& local,
                         const TcpAddress& remote, uid_t user) {
  const auto of = [user](uid_t uid) {
    return LocalPeer{uid == user || uid == 0 ? Kind::kTrusted : Kind::kOtherUser, uid};
  };
  for (const TcpTableRow& row : table) {
    // Until it is accepted, a connection has no inode and no owner.
    if (row.local == remote && row.remote == local && row.inode != 0) return of(row.uid);
  }
  // Whoever is going to accept it listens still: otherwise the kernel would have reset it. Of
  // several listeners, each must be trusted.
  LocalPeer peer{Kind::kElsewhere, 0};
  for (const TcpTableRow& row : table) {
    if (!MayListenFor(row, remote)) continue;
    peer = row.inode == 0 ? LocalPeer() : of(row.uid);
    if (peer.kind != Kind::kTrusted) break;
  }
  return peer;
}

LocalPeer FindLocalPeer(int fd) {
  const std::optional<TcpAddress> local = EndOf(fd, ::getsockname);
  const std::optional<TcpAddress> remote = EndOf(fd, ::getpeername);
  if (!local || !remote) return {};
  // To an address of this machine, the kernel connects from that address.
  if (!IsOnLoopback(*remote) && local->ip != remote->ip) return {Kind::kElsewhere, 0};
  const std::optional<std::vector<TcpTableRow>> table = Table();
  return table ? JudgeLocalPeer(*table, *local, *remote, ::geteuid()) : LocalPeer();
}

}  // namespace hvdray
