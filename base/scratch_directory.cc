// SPDX-License-Identifier: Apache-2.0
#include "base/scratch_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>

namespace hvdray {
namespace {

namespace fs = std::filesystem;

// Between the making of a directory and its lock.
constexpr time_t kSecondsToLock = 60;

fs::path Base() {
  std::error_code error;
  const fs::path base = fs::temp_directory_path(error);
  return error ? "/tmp" : base;
}

UniqueFd Locked(const fs::path& path, int how) {
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (lock.is_valid() && ::flock(lock.get(), LOCK_EX | how) != 0) lock.Reset();
  return lock;
}

void Remove(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

void RemoveThoseOfKilledOnes(const fs::path& base, const std::string& prefix) {
  std::error_code error;
  for (fs::directory_iterator it(base, error), end; !error && it != end; it.increment(error)) {
    if (!it->path().filename().string().starts_with(prefix)) continue;
    const UniqueFd lock = Locked(it->path(), LOCK_NB);
    struct stat info {};
    if (lock.is_valid() && ::fstat(lock.get(), &info) == 0 && info.st_uid == ::geteuid() &&
        info.st_mtime + kSecondsToLock < ::time(nullptr)) {
      Remove(it->path());
    }
  }
}

}  // namespace

Result<ScratchDirectory> ScratchDirectory::Make(const std::string& prefix) {
  const fs::path base = Base();
  RemoveThoseOfKilledOnes(base, prefix);
  std::string path = base / (prefix + "XXXXXX");
  if (::mkdtemp(path.data()) == nullptr) {
    Status why = ErrnoStatus(fmt::format("make a directory in {}", base.string()), errno);
    if (why.code() == ErrorCode::kOutOfResources) return why;
    return std::move(why)
        .WithCode(ErrorCode::kFileUnwritable)
        .WithHint("make that directory writable, or name another: TMPDIR=DIR");
  }
  UniqueFd lock = Locked(path, 0);
  return ScratchDirectory(std::move(path), std::move(lock));
}

ScratchDirectory::ScratchDirectory(ScratchDirectory&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

ScratchDirectory::~ScratchDirectory() {
  if (!path_.empty()) Remove(path_);
}

}  // namespace hvdray
