#include "cmd/drive/ray_parents.h"

#include <fmt/format.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <string_view>

#include "base/fd.h"
#include "base/shown_text.h"

namespace hvdray {
namespace {

constexpr size_t kStatBytes = 4096;

/// 0: no such process.
pid_t ParentOf(pid_t pid) {
  const Result<std::string> stat = ReadFile(fmt::format("/proc/{}/stat", pid), kStatBytes);
  if (!stat.ok()) return 0;
  // "1234 (a name) S 1 ...": the name may hold anything.
  const size_t end = stat->rfind(") ");
  constexpr size_t kToParent = 4;
  if (end == std::string::npos || end + kToParent >= stat->size()) return 0;
  const std::string_view rest = std::string_view(*stat).substr(end + kToParent);
  pid_t parent = 0;
  std::from_chars(rest.data(), rest.data() + rest.size(), parent);
  return parent;
}

}  // namespace

Result<RayParents> FindRayParents() {
  RayParents parents;
  parents.supervisor = ::getppid();
  parents.raylet = ParentOf(parents.supervisor);
  // An orphan's new parent is the machine's first process.
  if (parents.supervisor > 1 && parents.raylet > 0) return parents;
  return Status(ErrorCode::kRayFailed, "Ray's supervisor of this job is gone");
}

Result<std::string> FindRayLogs() {
  std::array<char, PATH_MAX> target{};
  const ssize_t size = ::readlink("/proc/self/fd/1", target.data(), target.size());
  const std::string_view path(target.data(), size > 0 ? static_cast<size_t>(size) : 0);
  struct stat info {};
  const bool is_file = ::fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode);
  if (!is_file || !path.starts_with('/')) {
    return Status(ErrorCode::kRayFailed,
                  fmt::format("stdout is '{}', not the log of a Ray job", ShownText(path)));
  }
  return std::string(path.substr(0, path.rfind('/')));
}

}  // namespace hvdray
