// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
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

// "." for a bare name; "/tmp/" for "/tmp/x".
std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

// The file `info` describes is in a directory where everybody can create files, and another user
// created it.
bool IsPlanted(const std::string& path, const struct stat& info) {
  constexpr mode_t kEverybodys = S_ISVTX | S_IWOTH;
  struct stat directory {};
  return ::stat(DirectoryOf(path).c_str(), &directory) == 0 &&
         (directory.st_mode & kEverybodys) == kEverybodys && info.st_uid != ::geteuid() &&
         info.st_uid != directory.st_uid;
}

Status RefusePlanted(const std::string& path, std::string_view what) {
  return {ErrorCode::kFileUnwritable,
          fmt::format("{}: is another user's {} in a directory that everybody may write to", path,
                      what),
          "name a file in a directory of your own"};
}

// Checks the directories before the last part of `path` for planted links.
Status CheckWayTo(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    struct stat info {};
    if (::lstat(part.c_str(), &info) != 0) return {};
    if (S_ISLNK(info.st_mode) && IsPlanted(part, info)) return RefusePlanted(part, "link");
  }
  return {};
}

// Links in /proc/PID/fd lead to open files, not to the path that readlink() returns.
bool IsInProc(const std::string& link) {
  struct statfs info {};
  return ::statfs(DirectoryOf(link).c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

}  // namespace

Result<std::string> PlaceToWrite(const std::string& path) {
  constexpr int kMaxLinks = 40;  // the kernel's limit
  std::string place = path;
  for (int links = 0; links < kMaxLinks; ++links) {
    HVDRAY_RETURN_IF_ERROR(CheckWayTo(place));
    struct stat info {};
    if (::lstat(place.c_str(), &info) != 0) {
      if (errno == ENOENT) return place;
      return FileStatus(ErrorCode::kFileUnwritable, place, errno);
    }
    if (!S_ISLNK(info.st_mode) || IsInProc(place)) return place;
    if (IsPlanted(place, info)) return RefusePlanted(place, "link");
    std::array<char, PATH_MAX> target{};
    const ssize_t size = ::readlink(place.c_str(), target.data(), target.size());
    if (size <= 0) return FileStatus(ErrorCode::kFileUnwritable, place, errno);
    const std::string_view text(target.data(), static_cast<size_t>(size));
    place =
        text.front() == '/' ? std::string(text) : fmt::format("{}/{}", DirectoryOf(place), text);
  }
  return FileStatus(ErrorCode::kFileUnwritable, path, ELOOP);
}

namespace {

// Checks again on the open file: what PlaceToWrite() saw may have been replaced since.
Result<UniqueFd> OpenPlace(const std::string& place) {
  struct stat info {};
  const bool is_there = ::lstat(place.c_str(), &info) == 0;
  const bool is_link = is_there && S_ISLNK(info.st_mode);  // only /proc has links here
  if (is_there && IsPlanted(place, info)) return RefusePlanted(place, "file");
  int flags = O_WRONLY | O_CLOEXEC;
  if (!is_link) flags |= O_NOFOLLOW;
  if (!is_there || S_ISREG(info.st_mode)) flags |= O_CREAT;
  UniqueFd fd(::open(place.c_str(), flags, 0644));
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, place, errno);
  }
  if (!is_link && IsPlanted(place, info)) return RefusePlanted(place, "file");
  if (S_ISREG(info.st_mode) && ::ftruncate(fd.get(), 0) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, place, errno);
  }
  return fd;
}

}  // namespace

Result<UniqueFd> OpenForWriting(const std::string& path) {
  if (const int named = DescriptorNamedBy(path); named >= 0) {
    UniqueFd fd(::fcntl(named, F_DUPFD_CLOEXEC, 3));
    if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnwritable, path, errno);
    return fd;
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::string place, PlaceToWrite(path));
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
Result<UniqueFd> OpenTemporary(const std::string& temporary) {
  ::unlink(temporary.c_str());
  UniqueFd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnwritable, temporary, errno);
  return fd;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, ByteView bytes) {
  struct stat info {};
  const bool is_special = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  if (is_special || DescriptorNamedBy(path) >= 0) {
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenForWriting(path));
    return WriteAll(fd.get(), bytes).WithContext(path);
  }
  // If `path` is a link, replace its target and keep the link.
  HVDRAY_ASSIGN_OR_RETURN(const std::string target, PlaceToWrite(path));
  const std::string temporary = fmt::format("{}.tmp{}", target, ::getpid());
  Status status;
  {
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenTemporary(temporary));
    // What only its owner could read stays so.
    if (::stat(target.c_str(), &info) == 0) (void)!::fchmod(fd.get(), info.st_mode & 0777);
    status = WriteAll(fd.get(), bytes);
    if (status.ok() && ::fsync(fd.get()) != 0) status = ErrnoStatus("fsync", errno);
  }
  if (status.ok() && ::rename(temporary.c_str(), target.c_str()) != 0) {
    status = ErrnoStatus("rename", errno);
  }
  if (!status.ok()) ::unlink(temporary.c_str());
  return std::move(status).WithContext(path);
}

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status MakeDirs(const std::string& path) {
  for (size_t slash = path.find('/', 1);; slash = path.find('/', slash + 1)) {
    const std::string part = path.substr(0, slash);
    if (!part.empty() && ::mkdir(part.c_str(), 0755) != 0 && errno != EEXIST) {
      return FileStatus(ErrorCode::kFileUnwritable, part, errno);
    }
    if (slash == std::string::npos) break;
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, path, errno);
  }
  if (!S_ISDIR(info.st_mode)) return FileStatus(ErrorCode::kFileUnwritable, path, ENOTDIR);
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
