// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/peer_check.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <string>

#include "base/fd.h"
#include "base/tcp_address.h"

namespace hvdray {
namespace {

bool IsOnLoopback(const sockaddr_in& end) {
  return end.sin_family == AF_INET && IsLoopback(ntohl(end.sin_addr.s_addr));
}

TcpAddress AddressOf(const sockaddr_in& end) {
  return TcpAddress::FromIpv4(end.sin_addr.s_addr, ntohs(end.sin_port));
}

}  // namespace

PeerChecker::PeerChecker(uid_t user) : user_(user) {}

PeerVerdict PeerChecker::Judge(const SocketOwner& owner) const {
  // A closed socket has inode 0 and, in TIME_WAIT, uid 0 whatever its owner was.
  if (owner.inode == 0) return PeerVerdict::kGone;
  return owner.uid == user_ || owner.uid == 0 ? PeerVerdict::kAccepted : PeerVerdict::kOtherUser;
}

PeerVerdict PeerChecker::Check(const sockaddr_in& remote, const sockaddr_in& local) {
  if (!IsOnLoopback(remote) || !IsOnLoopback(local)) return PeerVerdict::kNotLocal;
  TcpTableRow row;
  switch (diag_.Find(AddressOf(remote), AddressOf(local), &row)) {
    case SockDiag::Answer::kFound:
      return Judge({row.uid, row.inode});
    case SockDiag::Answer::kNoSuchSocket:
      return PeerVerdict::kGone;
    case SockDiag::Answer::kNoAnswer:
      break;
  }
  return CheckByProc(remote, local);
}

PeerVerdict PeerChecker::CheckByProc(const sockaddr_in& remote, const sockaddr_in& local) const {
  if (!IsOnLoopback(remote) || !IsOnLoopback(local)) return PeerVerdict::kNotLocal;
  bool is_readable = false;
  for (const char* path : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    // Takes 28 ms with thousands of sockets, so it is the fallback only.
    const std::string text = ReadFile(path).value_or("");
    is_readable = is_readable || !text.empty();
    if (const auto owner = FindInProcNetTcp(text, remote, local)) return Judge(*owner);
  }
  return is_readable ? PeerVerdict::kGone : PeerVerdict::kUnknown;
}

std::optional<SocketOwner> FindInProcNetTcp(std::string_view text, const sockaddr_in& from,
                                            const sockaddr_in& to) {
  std::optional<SocketOwner> owner;
  ReadProcNetTcp(text,
                 [&, local = AddressOf(from), remote = AddressOf(to)](const TcpTableRow& row) {
                   if (row.local == local && row.remote == remote)
                     owner = SocketOwner{row.uid, row.inode};
                   return !owner;
                 });
  return owner;
}

}  // namespace hvdray
