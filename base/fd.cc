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

#include "base/path_walk.h"
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

namespace {

Status FileStatus(ErrorCode code, const std::string& path, int error) {
  Status cause = ErrnoStatus(path, error);
  return cause.code() == ErrorCode::kOutOfResources ? cause : std::move(cause).WithCode(code);
}

}  // namespace

int DescriptorNamedBy(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view directory : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(directory)) continue;
    if (const auto fd = ParseInteger<int>(path.substr(directory.size()))) return *fd;
  }
  return -1;
}

namespace {

Result<PathEnd> FindPlace(const std::string& path) {
  PathFault fault;
  std::optional<PathEnd> place = WalkToFile(path, fault);
  if (fault.error != 0) fault.path = path;
  if (!place) return StatusOf(fault);
  return std::move(*place);
}

// Checks again on the open file: what was seen may have been replaced since.
Result<UniqueFd> OpenPlace(const PathEnd& place) {
  const int at = place.directory.get();
  struct stat info {};
  const bool is_there = ::fstatat(at, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  const bool is_link = is_there && S_ISLNK(info.st_mode);  // only /proc has links here
  if (is_there) HVDRAY_RETURN_IF_ERROR(CheckNotPlanted(place, info));
  int flags = O_WRONLY | O_CLOEXEC;
  if (!is_link) flags |= O_NOFOLLOW;
  if (!is_there || S_ISREG(info.st_mode)) flags |= O_CREAT;
  UniqueFd fd(::openat(at, place.name.c_str(), flags, 0644));
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, place.path, errno);
  }
  if (!is_link) HVDRAY_RETURN_IF_ERROR(CheckNotPlanted(place, info));
  if (S_ISREG(info.st_mode) && ::ftruncate(fd.get(), 0) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, place.path, errno);
  }
  return fd;
}

}  // namespace

Result<std::string> PlaceToWrite(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(PathEnd place, FindPlace(path));
  return std::move(place.path);
}

Result<UniqueFd> OpenForWriting(const std::string& path) {
  if (const int named = DescriptorNamedBy(path); named >= 0) {
    UniqueFd fd(::fcntl(named, F_DUPFD_CLOEXEC, 3));
    if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnwritable, path, errno);
    return fd;
  }
  HVDRAY_ASSIGN_OR_RETURN(const PathEnd place, FindPlace(path));
  return OpenPlace(place);
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

namespace {

// O_EXCL: in a directory that everybody may write to, another user could plant a link of this name.
Result<UniqueFd> OpenTemporary(const PathEnd& place, const std::string& name, mode_t mode) {
  ::unlinkat(place.directory.get(), name.c_str(), 0);
  UniqueFd fd(
      ::openat(place.directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnwritable, place.path, errno);
  return fd;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, ByteView bytes, mode_t mode) {
  struct stat info {};
  const bool is_special = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  if (is_special || DescriptorNamedBy(path) >= 0) {
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenForWriting(path));
    return WriteAll(fd.get(), bytes).WithContext(path);
  }
  // If `path` is a link, replace its target and keep the link.
  HVDRAY_ASSIGN_OR_RETURN(const PathEnd target, FindPlace(path));
  const int at = target.directory.get();
  const std::string temporary = fmt::format("{}.tmp{}", target.name, ::getpid());
  Status status;
  {
    // What only its owner could read stays so, from the first byte.
    const bool is_there = ::fstatat(at, target.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there) mode = info.st_mode & 0777;
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenTemporary(target, temporary, mode));
    if (is_there) (void)!::fchmod(fd.get(), mode);
    status = WriteAll(fd.get(), bytes);
    if (status.ok() && ::fsync(fd.get()) != 0) status = ErrnoStatus("fsync", errno);
  }
  if (status.ok() && ::renameat(at, temporary.c_str(), at, target.name.c_str()) != 0) {
    status = ErrnoStatus("rename", errno);
  }
  if (!status.ok()) ::unlinkat(at, temporary.c_str(), 0);
  return std::move(status).WithContext(path);
}

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status MakeDirs(const std::string& path) {
  PathFault fault;
  if (!WalkToDirectory(path, WalkRule::kOwnLinks, 0755, fault)) return StatusOf(fault);
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
