#include "cluster/ray/seat_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace hvdray {
namespace {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// "0.0.0.0" is not the same to bind as "::", so IPv4 goes as IPv4.
SocketAddress ToSockaddr(const TcpAddress& address) {
  SocketAddress out;
  if (address.is_ipv4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    v4.sin_addr.s_addr = address.ipv4();
    ::memcpy(&out.storage, &v4, sizeof v4);
    out.size = sizeof v4;
    return out;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  ::memcpy(&v6.sin6_addr, address.ip.data(), address.ip.size());
  ::memcpy(&out.storage, &v6, sizeof v6);
  out.size = sizeof v6;
  return out;
}

Result<UniqueFd> OpenSocket(const SocketAddress& at) {
  UniqueFd fd(::socket(at.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  return fd;
}

}  // namespace

Result<UniqueFd> ListenAt(const TcpAddress& address) {
  const SocketAddress at = ToSockaddr(address);
  HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(at));
  const int one = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (!address.is_ipv4()) ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one);
  if (::bind(fd.get(), at.get(), at.size) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return ErrnoStatus(fmt::format("listen at {}", address.ToString()), errno);
  }
  return fd;
}

Result<UniqueFd> BeginConnect(const TcpAddress& address) {
  const SocketAddress to = ToSockaddr(address);
  HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenSocket(to));
  if (::connect(fd.get(), to.get(), to.size) != 0 && errno != EINPROGRESS && errno != EINTR) {
    return ErrnoStatus(fmt::format("connect {}", address.ToString()), errno);
  }
  return fd;
}

Status ConnectOutcome(int socket, const TcpAddress& address) {
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  if (error == 0) return {};
  return ErrnoStatus(fmt::format("connect {}", address.ToString()), error);
}

Result<TcpAddress> LocalAddress(int socket) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
    return ErrnoStatus("getsockname", errno);
  }
  const auto address = ReadSockaddr(ByteView(reinterpret_cast<const char*>(&storage), size));
  if (!address) return Status(ErrorCode::kSystem, "getsockname: no TCP address");
  return *address;
}

}  // namespace hvdray
