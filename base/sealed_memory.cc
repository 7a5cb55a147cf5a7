// SPDX-License-Identifier: Apache-2.0
#include "base/sealed_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace hvdray {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

int SealMemory(int fd) { return ::fcntl(fd, F_ADD_SEALS, kSeals | F_SEAL_SEAL) == 0 ? 0 : errno; }

Result<UniqueFd> MakeSealedMemory(const char* name, ByteView bytes) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.is_valid()) return ErrnoStatus("memfd_create", errno);
  HVDRAY_RETURN_IF_ERROR(WriteAll(fd.get(), bytes));
  if (::lseek(fd.get(), 0, SEEK_SET) != 0) return ErrnoStatus("lseek", errno);
  if (const int error = SealMemory(fd.get()); error != 0) return ErrnoStatus("seal memory", error);
  return fd;
}

Result<uint64_t> SealedSize(int fd) {
  struct stat info {};
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || ::fstat(fd, &info) != 0) {
    return Status(ErrorCode::kUsage, "the descriptor is not sealed memory");
  }
  return static_cast<uint64_t>(info.st_size);
}

int OpenSealedMemory(uint32_t pid, int fd, UniqueFd& memory) {
  const std::string path = fmt::format("/proc/{}/fd/{}", pid, fd);
  // O_NONBLOCK: what is no memory, such as a pipe, must not be waited for.
  memory.Reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!memory.is_valid()) return errno;
  return SealedSize(memory.get()).ok() ? 0 : EINVAL;
}

Result<std::string> ReadMemory(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t n =
        ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read memory", errno);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  bytes.resize(done);
  return bytes;
}

}  // namespace hvdray
