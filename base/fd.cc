// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "base/text.h"

namespace hvdray {

void UniqueFd::Reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Pipe> MakePipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return ErrnoStatus("pipe", errno);
  return Pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return ErrnoStatus("socketpair", errno);
  }
  return std::pair{UniqueFd(fds[0]), UniqueFd(fds[1])};
}

UniqueFd OpenPidFd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

bool AwaitEnd(int pidfd, Duration limit) {
  const TimePoint deadline = std::chrono::steady_clock::now() + limit;
  for (;;) {
    pollfd ended{pidfd, POLLIN, 0};
    const Duration left = deadline - std::chrono::steady_clock::now();
    const int ready =
        ::poll(&ended, 1, left > Duration::zero() ? static_cast<int>(Milliseconds(left)) + 1 : 0);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

Status SetNonBlocking(int fd) {
  const int flags = ::fcntl(fd, F_GETFL);
  if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    return ErrnoStatus("fcntl", errno);
  }
  return {};
}

Status FileStatus(ErrorCode code, const std::string& path, int error) {
  Status cause = ErrnoStatus(path, error);
  return cause.code() == ErrorCode::kOutOfResources ? cause : std::move(cause).WithCode(code);
}

Result<std::string> ReadFile(const std::string& path, size_t limit_bytes) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnreadable, path, errno);
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n == 0) return text;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FileStatus(ErrorCode::kFileUnreadable, path, errno);
    text.append(buffer, static_cast<size_t>(n));
    if (text.size() > limit_bytes) {
      return Status(ErrorCode::kFileUnreadable,
                    fmt::format("{}: larger than {} bytes", path, limit_bytes));
    }
  }
}

Status WriteAll(int fd, ByteView bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("write", errno);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<uint64_t> RaiseOpenFileLimit(uint64_t wanted) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoStatus("getrlimit", errno);
  if (limit.rlim_cur >= wanted) return uint64_t{limit.rlim_cur};
  const rlimit grown{wanted, std::max<rlim_t>(limit.rlim_max, wanted)};
  if (::setrlimit(RLIMIT_NOFILE, &grown) == 0) return wanted;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return ErrnoStatus("setrlimit", errno);
  return uint64_t{limit.rlim_cur};
}

}  // namespace hvdray
