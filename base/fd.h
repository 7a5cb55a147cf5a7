// SPDX-License-Identifier: Apache-2.0
// Owning file descriptors, the calls that make them, and whole files. Every descriptor made here is
// close-on-exec. Threads: any; a UniqueFd has one user at a time.
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

/// Opens `path` for writing and truncates it; creates it with mode 0644 (umask applies). For the
/// name of a descriptor ("/dev/stdout"), returns a duplicate, not truncated. Refuses another user's
/// links (see PlaceToWrite()), another user's file in a directory that everybody may write to (as
/// /tmp), and hard links in a directory where others can make them. Errors: kFileUnwritable,
/// kOutOfResources.
Result<UniqueFd> OpenForWriting(const std::string& path);

/// Reads the whole file. Blocks. Errors: kFileUnreadable, also for a directory or a file of more
/// than `limit_bytes`; kOutOfResources.
Result<std::string> ReadFile(const std::string& path, size_t limit_bytes = size_t{64} << 20);

/// Writes all bytes, retrying short writes. Blocks; `fd` must be a blocking one. Errors: as
/// ErrnoStatus("write").
Status WriteAll(int fd, ByteView bytes);

/// Replaces `path` whole or not at all (temporary file in the same directory, fsync, rename). If
/// `path` is a link, replaces its target. A file that exists keeps its mode; a new one gets `mode`
/// (umask applies). Writes in place to what is not a regular file (a device, a pipe). Blocks.
/// Errors: kFileUnwritable, kOutOfResources, kSystem.
Status WriteFileAtomically(const std::string& path, ByteView bytes, mode_t mode = 0644);

/// A directory, or a link to one.
bool IsDirectory(const std::string& path);

/// Makes the directory and its parents (mode 0755, umask applies); succeeds if it exists already.
/// Follows links as PlaceToWrite(). Errors: kFileUnwritable, kOutOfResources.
Status MakeDirs(const std::string& path);

/// Raises this process's soft limit of open files to at least `wanted` if the hard limit permits;
/// root raises the hard limit too. Returns the soft limit now in force: it may be below `wanted`.
/// Errors: kSystem.
Result<uint64_t> RaiseOpenFileLimit(uint64_t wanted);

// Where a path to write to leads: to an open descriptor of this process, to a file, or to a link
// that another user planted.

/// 1 for "/dev/stdout", 2 for "/dev/stderr", N for "/dev/fd/N" and "/proc/self/fd/N"; -1 for other
/// paths. Pure: does not check that the descriptor is open. If such a descriptor is a file, opening
/// the path would truncate the file and overwrite it from its start: OpenForWriting() and
/// WriteFileAtomically() write to a duplicate of the descriptor instead.
int DescriptorNamedBy(const std::string& path);

/// Resolves the links of `path` and returns the path of the file itself; a file that does not exist
/// yet is fine. Follows only links of this user's and root's, and those in directories that nobody
/// else can write to: see WalkToFile(). Errors: kFileUnwritable, kOutOfResources.
Result<std::string> PlaceToWrite(const std::string& path);

}  // namespace hvdray

#endif  // HVDRAY_BASE_FD_H_
