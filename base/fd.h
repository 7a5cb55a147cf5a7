// Owning file descriptors and the calls that make them. All are close-on-exec.
#ifndef HVDRAY_BASE_FD_H_
#define HVDRAY_BASE_FD_H_

#include <string>
#include <utility>

#include "base/result.h"
#include "base/types.h"

namespace hvdray {

/// Owns one descriptor; closes it. Move-only.
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
  /// Closes what is held and holds `fd` instead.
  void Reset(int fd = -1);

 private:
  int fd_ = -1;
};

struct Pipe {
  UniqueFd read_end;
  UniqueFd write_end;
};

/// A pipe; both ends blocking. Errors: kOutOfResources, kSystem.
Result<Pipe> MakePipe();

/// Two connected stream sockets. Errors: as MakePipe.
Result<std::pair<UniqueFd, UniqueFd>> MakeSocketPair();

Status SetNonBlocking(int fd);

/// Opens for writing, made with mode 0644 (umask applies) and truncated. Errors: kFileUnwritable.
Result<UniqueFd> OpenForWriting(const std::string& path);

/// The whole file. Blocks. Errors: kFileUnreadable, also above `limit_bytes` and for folders.
Result<std::string> ReadFile(const std::string& path, size_t limit_bytes = size_t{64} << 20);

/// Writes all bytes, retrying short writes. Blocks. Errors: as ErrnoStatus("write").
Status WriteAll(int fd, ByteView bytes);

/// Replaces `path` whole or not at all (temporary name in the same folder, fsync, rename); a
/// path that is not a regular file (a device, a pipe) is written in place. Errors: kFileUnwritable.
Status WriteFileAtomically(const std::string& path, ByteView bytes);

/// Makes the folder and its parents (mode 0755, umask applies). Errors: kFileUnwritable.
Status MakeDirs(const std::string& path);

/// Raises the soft limit of open files to at least `wanted`, the hard limit permitting (root raises
/// that too). Returns the soft limit now in force, which may be below `wanted`.
Result<uint64_t> RaiseOpenFileLimit(uint64_t wanted);

}  // namespace hvdray

#endif  // HVDRAY_BASE_FD_H_
