// SPDX-License-Identifier: Apache-2.0
#include "cmd/scratch_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <system_error>

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

ScratchDirectory::ScratchDirectory(const std::string& prefix) {
  const fs::path base = Base();
  RemoveThoseOfKilledOnes(base, prefix);
  path_ = base / (prefix + "XXXXXX");
  if (::mkdtemp(path_.data()) != nullptr) {
    lock_ = Locked(path_, 0);
  } else {
    path_ = base / (prefix + "none");
  }
}

ScratchDirectory::~ScratchDirectory() { Remove(path_); }

}  // namespace hvdray
