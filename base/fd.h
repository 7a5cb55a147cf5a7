// SPDX-License-Identifier: Apache-2.0
// Owning file descriptors, the calls that make them, reading and writing. Every descriptor made
// here is close-on-exec. Threads: any; a UniqueFd has one user at a time.
#ifndef HVDRAY_BASE_FD_H_
#define HVDRAY_BASE_FD_H_

#include <sys/types.h>

#include <string>
#include <utility>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Owns one descriptor and closes it. Move-only. -1: holds none.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool is_valid() const { return fd_ >= 0; }
  /// Gives the descriptor away; the caller closes it.
  [[nodiscard]] int Release() { return std::exchange(fd_, -1); }
  /// Closes the held descriptor and takes ownership of `fd`.
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// Both ends of a pipe. Move-only.
struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// Makes a pipe; both ends block and are close-on-exec. Errors: kOutOfResources, kSystem.
Result<Pipe> MakePipe();

/// Makes two connected stream sockets, both blocking. Errors: as MakePipe().
Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair();

/// Sets O_NONBLOCK on the open file, so all duplicates of `fd` get it too. Errors: kSystem.
Status SetNonBlocking(int fd);

/// A descriptor of that process, readable once it has ended. Invalid: errno says why, ESRCH that
/// there is no such process.
UniqueFd OpenPidFd(pid_t pid);
/// Waits for at most `limit` until the process behind a pidfd has ended; false: it lives.
bool AwaitEnd(int pidfd, Duration limit = {});

/// What the system says of `path`, as `code`, unless it is kOutOfResources.
Status FileStatus(ErrorCode code, const std::string& path, int error);

/// Reads the whole file. Blocks. Errors: kFileUnreadable, also for a directory or a file of more
/// than `limit_bytes`; kOutOfResources.
Result<std::string> ReadFile(const std::string& path, size_t limit_bytes = size_t{64} << 20);

/// Writes all bytes, retrying short writes. Blocks; `fd` must be a blocking one. Errors: as
/// ErrnoStatus("write").
Status WriteAll(int fd, ByteView bytes);

/// Raises this process's soft limit of open files to at least `wanted` if the hard limit permits;
/// root raises the hard limit too. Returns the soft limit now in force: it may be below `wanted`.
/// Errors: kSystem.
Result<uint64_t> RaiseOpenFileLimit(uint64_t wanted);

}  // namespace hvdray

#endif  // HVDRAY_BASE_FD_H_
