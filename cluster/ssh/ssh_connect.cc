// SPDX-License-Identifier: Apache-2.0
#include "cluster/ssh/ssh_connect.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/name_service.h"
#include "base/tcp_address.h"
#include "cluster/ssh/known_hosts.h"
#include "cluster/ssh/ssh_auth.h"
#include "cluster/ssh/ssh_identity.h"

namespace hvdray {
namespace {

constexpr const char* kNameHint = "check the spelling, and DNS or /etc/hosts";

/// Sends small packets at once, and lets the kernel notice a dead peer.
void SetOptions(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/// What the user can check; empty for other codes.
std::string_view Hint(ErrorCode code) {
  if (code == ErrorCode::kHostRefused) return "check that sshd runs there, and its port (-p)";
  if (code == ErrorCode::kHostUnreachable) {
    return "check the address, the network, and that the host is up";
  }
  if (code == ErrorCode::kConnectTimeout) {
    return "check that the host is up, and for a firewall; or raise --start-timeout";
  }
  return {};
}

Result<UniqueFd> ConnectOne(const SshAddress& to, const SshLimit& limit) {
  const int family = to.address.ss_family;
  UniqueFd fd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  if (!fd.is_valid()) return ErrnoStatus("socket", errno);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.address), to.size) != 0) {
    if (errno != EINPROGRESS && errno != EINTR) return ErrnoStatus("connect", errno);
    HVDRAY_RETURN_IF_ERROR(WaitForFd(fd.get(), POLLOUT, limit).WithContext("connect"));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return ErrnoStatus("connect", error);
  }
  SetOptions(fd.get());
  return fd;
}

/// The peer's address: "10.0.0.7", "fe80::1". Empty when it has none.
std::string PeerAddress(int fd) {
  SshAddress peer;
  peer.size = sizeof peer.address;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer.address), &peer.size) != 0) return {};
  return peer.Host();
}

/// Like the system's ssh: no when the user gave the address itself, and no for this machine.
bool IsAddressWorthChecking(const SshSettings& settings, const std::string& address) {
  return settings.checks_address && !address.empty() && address != settings.host_name &&
         !IsLoopback(address);
}

/// Fails when known_hosts has keys for the host, but none of a type that libssh2 can verify.
Status CheckKnownAlgorithms(const std::vector<std::string>& known) {
  const auto is_usable = [](const std::string& name) {
    const SshKeyType type = ToSshKeyType(name);
    return type == SshKeyType::kEd25519 || type == SshKeyType::kEcdsa;
  };
  if (known.empty() || std::any_of(known.begin(), known.end(), is_usable)) return {};
  return {ErrorCode::kNotSupported,
          fmt::format("known_hosts has only this host's {} key, which libssh2 can't verify",
                      fmt::join(known, " and ")),
          "--ssh-transport openssh"};
}

/// Like ExplainOpenssh(): a host that hangs up silently before the login is taken to be full.
Status OrBusy(Status status, const SshSession& session) {
  if (status.code() != ErrorCode::kHandshakeFailed || !session.was_dropped()) return status;
  return {ErrorCode::kHostBusy, status.message(),
          "sshd there may be full (its MaxStartups) or still starting; HVDRAY_SSH_CONNECTIONS=8 "
          "connects to fewer hosts at once"};
}

Status SetUp(SshSession& session, const SshSettings& settings, const std::string& host,
             const std::string& command, SshQuestions& questions, const SshLimit& greeting,
             SshLimit& limit) {
  const std::string& alias = settings.host_key_alias;
  const std::string name = KnownHostsName(alias.empty() ? settings.host_name : alias,
                                          alias.empty() ? settings.port : 22);
  const std::vector<KnownHostsFile> files = ReadKnownHosts(settings);
  const std::vector<std::string> known = KnownAlgorithms(files, name);
  if (HasHostAuthority(files, name)) {
    return {ErrorCode::kNotSupported,
            "known_hosts has a certificate authority for this host, which libssh2 can't verify",
            "--ssh-transport openssh"};
  }
  if (settings.host_key_policy != HostKeyPolicy::kNo) {
    HVDRAY_RETURN_IF_ERROR(CheckKnownAlgorithms(known));
  }
  HVDRAY_RETURN_IF_ERROR(
      OrBusy(session.Handshake(settings.algorithms, known, greeting).WithContext("SSH handshake"),
             session));
  HVDRAY_ASSIGN_OR_RETURN(const HostKeyMatch match,
                          CheckHostKey(settings, host, session.host_key(), limit));
  SshSettings allowed = settings;
  if (match == HostKeyMatch::kChanged) {
    // Like the system's ssh: an attacker in between may accept our login, but gets no password.
    allowed.password_veto = "the host key has changed";
  } else if (const std::string address = PeerAddress(session.fd());
             IsAddressWorthChecking(settings, address)) {
    HVDRAY_RETURN_IF_ERROR(CheckHostAddress(settings, address, session.host_key(), limit));
  }
  HVDRAY_RETURN_IF_ERROR(OrBusy(AuthenticateSsh(session, allowed, questions, limit), session));
  return session.Exec(command, limit);
}

}  // namespace

std::string SshAddress::Host() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET6) {
    const auto* in6 = reinterpret_cast<const sockaddr_in6*>(&address);
    ::inet_ntop(AF_INET6, &in6->sin6_addr, text.data(), text.size());
  } else if (address.ss_family == AF_INET) {
    const auto* in4 = reinterpret_cast<const sockaddr_in*>(&address);
    ::inet_ntop(AF_INET, &in4->sin_addr, text.data(), text.size());
  }
  return text.data();
}

std::string SshAddress::ToString() const {
  // Both families have their port at the same offset.
  const int port = ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  return address.ss_family == AF_INET6 ? fmt::format("[{}]:{}", Host(), port)
                                       : fmt::format("{}:{}", Host(), port);
}

Result<std::vector<SshAddress>> LookUpSshHost(const std::string& host_name, int port) {
  const Result<AddressList> found = FindHost(host_name, static_cast<uint16_t>(port));
  if (!found.ok()) {
    return Status(found.status()).WithContext("look up " + host_name).WithHint(kNameHint);
  }
  std::vector<SshAddress> addresses;
  for (const addrinfo* entry = found->get(); entry != nullptr; entry = entry->ai_next) {
    SshAddress address;
    if (entry->ai_addrlen > sizeof address.address) continue;
    std::memcpy(&address.address, entry->ai_addr, entry->ai_addrlen);
    address.size = entry->ai_addrlen;
    addresses.push_back(address);
  }
  if (addresses.empty()) {
    return Status(ErrorCode::kUnknownHost, fmt::format("look up {}: no address", host_name),
                  kNameHint);
  }
  return addresses;
}

Result<UniqueFd> ConnectTcp(const std::vector<SshAddress>& addresses, const SshLimit& limit) {
  Status failure(ErrorCode::kUnknownHost, "no address to connect to");
  std::vector<std::string> tried;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto shares = static_cast<int64_t>(addresses.size() - i);
    Result<UniqueFd> fd = ConnectOne(addresses[i], limit.NoLaterThan(limit.Remaining() / shares));
    if (fd.ok()) return fd;
    failure = std::move(fd).status();
    if (failure.code() == ErrorCode::kCancelled) return failure;
    tried.push_back(addresses[i].ToString());
  }
  const std::string_view hint = Hint(failure.code());
  return std::move(failure).WithHint(hint).WithContext(fmt::format("{}", fmt::join(tried, ", ")));
}

Result<std::unique_ptr<SshSession>> ConnectSsh(const SshSettings& settings, const std::string& host,
                                               const std::vector<SshAddress>& addresses,
                                               const std::string& command, SshQuestions& questions,
                                               SshLimit limit) {
  const auto begun = std::chrono::steady_clock::now();
  SshLimit greeting = limit;  // ConnectTimeout covers the steps up to the handshake, as in ssh
  if (settings.connect_timeout > Duration::zero()) {
    greeting = limit.NoLaterThan(settings.connect_timeout);
  }
  const auto fail = [&](Status status) -> Status {
    if (status.code() != ErrorCode::kConnectTimeout) return status;
    const Seconds spent = std::chrono::steady_clock::now() - begun;
    const std::string text = fmt::format("{} (after {:.1f} s)", status.message(), spent.count());
    return {ErrorCode::kConnectTimeout, text, status.hint()};
  };
  Result<UniqueFd> socket = ConnectTcp(addresses, greeting);
  if (!socket.ok()) return fail(std::move(socket).status());
  HVDRAY_ASSIGN_OR_RETURN(std::unique_ptr<SshSession> session,
                          SshSession::Create(std::move(*socket)));
  Status status = SetUp(*session, settings, host, command, questions, greeting, limit);
  if (!status.ok()) return fail(std::move(status));
  return session;
}

void SshGate::Enter(const std::string& address, std::function<void()> enter) {
  Door& door = doors_[address];
  if (door.inside >= max_per_address_) return door.waiting.push_back(std::move(enter));
  ++door.inside;
  enter();
}

void SshGate::Leave(const std::string& address) {
  const auto found = doors_.find(address);
  if (found == doors_.end()) return;
  Door& door = found->second;
  if (door.waiting.empty()) {
    if (--door.inside == 0) doors_.erase(found);
    return;
  }
  const std::function<void()> next = std::move(door.waiting.front());
  door.waiting.pop_front();
  next();
}

}  // namespace hvdray
