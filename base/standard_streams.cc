// SPDX-License-Identifier: Apache-2.0
#include "base/standard_streams.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/fd.h"
#include "base/text.h"

namespace hvdray {
namespace {

// As getdents64(2) fills it; readdir() would allocate.
struct DirectoryEntry {
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

// False: no /proc.
bool CloseListed(int first) {
  const int directory = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0) return false;
  alignas(DirectoryEntry) char buffer[4096];
  for (;;) {
    const int64_t size = ::syscall(SYS_getdents64, directory, buffer, sizeof buffer);
    if (size <= 0) break;
    for (int64_t at = 0; at < size;) {
      const auto* entry = reinterpret_cast<const DirectoryEntry*>(buffer + at);
      at += entry->size;
      const auto fd = ParseInteger<int>(entry->name);
      if (fd && *fd >= first && *fd != directory) ::close(*fd);
    }
  }
  ::close(directory);
  return true;
}

}  // namespace

void CloseFrom(int first) {
  if (::syscall(SYS_close_range, first, ~0U, 0) == 0) return;
  ::close(first);  // makes room for the directory's descriptor
  if (CloseListed(first + 1)) return;
  constexpr int kEnd = 65536;
  for (int fd = first + 1; fd < kEnd; ++fd) ::close(fd);
}

void FillStandardStreams() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest number that is free, so `fd`. Children inherit it, as they would the missing one.
    (void)!::open("/dev/null", fd == STDOUT_FILENO ? O_RDONLY : O_RDWR);
  }
}

Result<std::pair<UniqueFd, UniqueFd>> TakeStdinAndStdout() {
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_valid()) return ErrnoStatus("/dev/null", errno);
  if (!in.is_valid() || !out.is_valid()) return ErrnoStatus("dup", errno);
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return std::pair{std::move(in), std::move(out)};
}

bool IsPollable(int fd) {
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  epoll_event event{};
  return epoll.is_valid() && ::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace hvdray
