// SPDX-License-Identifier: Apache-2.0
#include "agent/connection_breaker.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/fd.h"
#include "base/log.h"

namespace hvdray {
namespace {

// By number: libc's headers may be older than the running kernel.
constexpr int64_t kPidfdOpen = 434;   // Linux 5.3
constexpr int64_t kPidfdGetfd = 438;  // Linux 5.6

bool IsGloos(const TcpAddress& local, const TcpAddress& remote,
             std::span<const TcpAddress> addresses) {
  return std::binary_search(addresses.begin(), addresses.end(), local) ||
         std::binary_search(addresses.begin(), addresses.end(), remote);
}

// A connection counts by either end; a listener only while it is known to wait for the gang.
bool IsGloos(const TcpTableRow& row, std::span<const TcpAddress> addresses,
             std::span<const TcpAddress> listening) {
  if (row.state != TCP_LISTEN) return IsGloos(row.local, row.remote, addresses);
  return std::binary_search(listening.begin(), listening.end(), row.local);
}

using NameFn = int (*)(int, sockaddr*, socklen_t*);

std::optional<TcpAddress> EndOf(int fd, NameFn name) {
  sockaddr_storage end{};
  socklen_t size = sizeof end;
  if (name(fd, reinterpret_cast<sockaddr*>(&end), &size) != 0) return std::nullopt;
  return ReadSockaddr(ByteView(reinterpret_cast<const char*>(&end), size));
}

// The descriptor's number may have been reused since it was listed: checks the duplicate itself.
bool IsGloosConnection(int fd, std::span<const TcpAddress> addresses) {
  int protocol = 0;
  socklen_t size = sizeof protocol;
  if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0) return false;
  if (protocol != IPPROTO_TCP) return false;
  const auto local = EndOf(fd, ::getsockname);
  const auto remote = EndOf(fd, ::getpeername);  // none: a listener, or closed meanwhile
  return local && remote && IsGloos(*local, *remote, addresses);
}

// A socket without a peer can't be checked by its ends: compares the inode.
bool IsSame(int fd, const TcpTableRow& row) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) && status.st_ino == row.inode;
}

bool MeansGone(int error) {
  return error == EBADF || error == ENOTCONN || error == ESRCH || error == ENOENT ||
         error == ESTALE;
}

std::string Refusal(std::string_view call, int error) { return ErrnoStatus(call, error).message(); }

std::string HintFor(int error) {
  constexpr std::string_view kOr = "or give the agent CAP_NET_ADMIN";
  if (error == ENOSYS) {
    return fmt::format("pidfd_getfd(2) needs Linux 5.6 and a container that permits it; {}", kOr);
  }
  if (error != EPERM && error != EACCES) return std::string(kOr);
  const Result<std::string> scope = ReadFile("/proc/sys/kernel/yama/ptrace_scope");
  const std::string now = scope.ok() ? fmt::format(" (now {})", scope->substr(0, 1)) : "";
  return fmt::format(
      "pidfd_getfd(2) needs a debugger's permissions: workers of the agent's own user, "
      "kernel.yama.ptrace_scope at most 1{}, and a container that allows SYS_PTRACE; {}",
      now, kOr);
}

}  // namespace

ConnectionBreaker::Outcome ConnectionBreaker::Break(std::span<const LivingWorker> workers,
                                                    std::span<const TcpAddress> addresses,
                                                    std::span<const TcpAddress> listening) {
  const auto begin = std::chrono::steady_clock::now();
  Round round{TcpSockets(diag_), addresses, listening, std::nullopt, {}};
  if (!addresses.empty() || !listening.empty()) {
    for (const LivingWorker& worker : workers) {
      if (!worker.is_parked) BreakWorker(worker, round);
    }
  }
  round.result.took = std::chrono::steady_clock::now() - begin;
  return std::move(round.result);
}

void ConnectionBreaker::BreakWorker(const LivingWorker& worker, Round& round) {
  HVDRAY_CHECK(worker.pid > 1);
  Attempt attempt;
  BreakProcess(worker.pid, worker.pidfd, round, attempt);
  // A process without Gloo connections is a wrapper: the training process below it has them.
  if (attempt.matched == 0) {
    if (!round.processes) round.processes = ScanProcesses();
    for (const pid_t pid : Relatives(*round.processes, worker.pid)) {
      BreakProcess(pid, -1, round, attempt);
    }
  }
  const bool is_blind = attempt.matched == 0 && attempt.error != 0;
  if (attempt.refused > 0 || is_blind) Refuse(attempt, round.result);
}

void ConnectionBreaker::BreakProcess(pid_t pid, int pidfd, Round& round, Attempt& attempt) {
  UniqueFd opened;
  if (pidfd < 0) {
    opened.Reset(static_cast<int>(::syscall(kPidfdOpen, pid, 0)));
    pidfd = opened.get();
  }
  if (pidfd >= 0 && AwaitEnd(pidfd)) return;
  const Result<std::vector<ProcessConnection>> connections = round.sockets.Connections(pid);
  if (!connections.ok()) {
    // A process that has just ended fails the same way as a forbidden one: the pidfd tells.
    if (pidfd < 0 || AwaitEnd(pidfd) || attempt.error != 0) return;
    attempt.error = EACCES;
    attempt.why = connections.status().message();
    return;
  }
  for (const ProcessConnection& connection : *connections) {
    if (!IsGloos(connection.row, round.addresses, round.listening)) continue;
    ++attempt.matched;
    End(pidfd, connection, round, attempt);
  }
}

void ConnectionBreaker::End(int pidfd, const ProcessConnection& connection, Round& round,
                            Attempt& attempt) {
  const UniqueFd duplicate(static_cast<int>(::syscall(kPidfdGetfd, pidfd, connection.fd, 0)));
  if (duplicate.is_valid()) {
    const bool has_peer = connection.row.state == TCP_ESTABLISHED;
    const bool is_it = has_peer ? IsGloosConnection(duplicate.get(), round.addresses)
                                : IsSame(duplicate.get(), connection.row);
    if (!is_it) return;
    if (::shutdown(duplicate.get(), SHUT_RDWR) == 0) ++round.result.shut;
    return;
  }
  const int error = errno;
  // With a pidfd, EBADF is about the worker's descriptor; without one, about the missing pidfd.
  if (pidfd >= 0 && MeansGone(error)) return;
  const int destroy_error = connection.is_in_our_namespace ? diag_.Destroy(connection.row) : EXDEV;
  if (destroy_error == 0) {
    ++round.result.destroyed;
    return;
  }
  if (MeansGone(destroy_error)) return;
  if (attempt.refused++ > 0) return;
  attempt.error = pidfd >= 0 ? error : ENOSYS;
  attempt.why = Refusal("pidfd_getfd", attempt.error) + "; " +
                (destroy_error == EXDEV ? std::string("the worker is in another network namespace")
                                        : Refusal("SOCK_DESTROY", destroy_error));
}

void ConnectionBreaker::Refuse(const Attempt& attempt, ConnectionBreaker::Outcome& result) {
  if (result.refused++ > 0) return;
  result.why = attempt.why;
  result.hint = HintFor(attempt.error);
  if (std::exchange(has_logged_, true)) return;
  // The launcher tells the user, once for all hosts; this line is for the agent's log.
  Log(LogLevel::kInfo, "agent", "survivors wait for Horovod's own timeout: {}; hint: {}",
      result.why, result.hint);
}

}  // namespace hvdray
