// SPDX-License-Identifier: Apache-2.0
#include "cluster/transport/endpoint_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/text.h"

namespace hvdray {
namespace {

constexpr std::string_view kPrefix = "hvdray-endpoint-";
constexpr size_t kMaxAddresses = 16;

/// Digits only, no leading zero, within the range.
std::optional<int> ParseNumber(std::string_view text, int lowest, int highest) {
  if (text.empty() || text.size() > 9 || (text.size() > 1 && text[0] == '0')) return std::nullopt;
  const auto number = ParseInteger<int>(text);
  return number && text[0] != '-' && *number >= lowest && *number <= highest ? number
                                                                             : std::nullopt;
}

std::optional<TcpAddress> ParseOne(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = text.substr(0, colon);
  const bool is_bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (is_bracketed) host = host.substr(1, host.size() - 2);
  if (is_bracketed != (host.find(':') != std::string_view::npos)) return std::nullopt;
  const std::optional<int> port = ParseNumber(text.substr(colon + 1), 1, 65535);
  std::optional<TcpAddress> address = ParseIpLiteral(host);
  if (!port || !address || address->is_unspecified()) return std::nullopt;
  address->port = static_cast<uint16_t>(*port);
  return address;
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Keeps IPv4 as IPv4: binding to "0.0.0.0" differs from binding to "::".
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

std::string EndpointIdentity(int endpoint) { return fmt::format("{}{}", kPrefix, endpoint); }

std::optional<int> ParseEndpointIdentity(std::string_view identity) {
  if (!identity.starts_with(kPrefix)) return std::nullopt;
  return ParseNumber(identity.substr(kPrefix.size()), 0, kMaxEndpoint);
}

std::optional<TcpAddress> ParseIpLiteral(std::string_view text) {
  const std::string literal(text);
  if (literal.size() != ::strlen(literal.c_str())) return std::nullopt;
  in_addr ipv4{};
  if (::inet_pton(AF_INET, literal.c_str(), &ipv4) == 1) {
    return TcpAddress::FromIpv4(ipv4.s_addr, 0);
  }
  TcpAddress address;
  static_assert(sizeof(in6_addr) == sizeof address.ip);
  if (::inet_pton(AF_INET6, literal.c_str(), address.ip.data()) == 1) return address;
  return std::nullopt;
}

Result<std::vector<TcpAddress>> ParseEndpointAddresses(std::string_view text) {
  std::vector<TcpAddress> addresses;
  for (;;) {
    const size_t comma = text.find(',');
    const std::string_view item = text.substr(0, comma);
    const std::optional<TcpAddress> address = ParseOne(item);
    if (!address || addresses.size() == kMaxAddresses) {
      return Status(ErrorCode::kUsage,
                    address ? fmt::format("more than {} addresses", kMaxAddresses)
                            : fmt::format("'{}' is not a valid address", item),
                    "use IP literals with ports: 10.0.0.5:4711, [fd00::5]:4711");
    }
    addresses.push_back(*address);
    if (comma == std::string_view::npos) return addresses;
    text.remove_prefix(comma + 1);
  }
}

std::string FormatEndpointAddresses(const std::vector<TcpAddress>& addresses) {
  std::string text;
  for (const TcpAddress& address : addresses) {
    if (!text.empty()) text += ',';
    text += address.ToString();
  }
  return text;
}

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
  if (!address) return Status(ErrorCode::kSystem, "getsockname: not a TCP address");
  return *address;
}

}  // namespace hvdray
