// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/resolver_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/fd.h"

namespace hvdray {
namespace {

constexpr size_t kMaxFileBytes = size_t{16} << 20;

Result<std::optional<std::string>> ReadRealFile(const std::string& path) {
  const auto failed = [&path](const char* call, int error) {
    return ErrnoStatus(call, error).WithCode(ErrorCode::kFileUnreadable).WithContext(path);
  };
  // May block: `--hostfile <(command)` is a pipe.
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.is_valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return std::optional<std::string>();
    return failed("open", errno);
  }
  std::string text;
  char buffer[65536];
  for (;;) {
    const ssize_t got = ::read(fd.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", errno);
    if (got == 0) return std::optional<std::string>(std::move(text));
    text.append(buffer, static_cast<size_t>(got));
    if (text.size() > kMaxFileBytes) return failed("read", EFBIG);
  }
}

bool IsRealExecutable(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

ResolverFiles RealResolverFiles() {
  ResolverFiles files;
  files.read = ReadRealFile;
  files.is_executable = IsRealExecutable;
  return files;
}

}  // namespace hvdray
