// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

#include "base/path_walk.h"
#include "base/text.h"

namespace hvdray {

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

Result<PathEnd> FindPlace(const std::string& path) {
  PathFault fault;
  std::optional<PathEnd> place = WalkToFile(path, fault);
  if (fault.error != 0) fault.path = path;
  if (!place) return ToStatus(fault);
  return std::move(*place);
}

// Checks again on the open file: what was seen may have been replaced since.
Result<UniqueFd> OpenPlace(const PathEnd& place) {
  const int at = place.directory.get();
  struct stat info {};
  const bool is_there = ::fstatat(at, place.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
  const bool is_link = is_there && S_ISLNK(info.st_mode);  // only /proc has links here
  if (is_there) HVDRAY_RETURN_IF_ERROR(CheckNotPlanted(place, info));
  int flags = O_WRONLY | O_CLOEXEC;
  if (!is_link) flags |= O_NOFOLLOW;
  if (!is_there || S_ISREG(info.st_mode)) flags |= O_CREAT;
  UniqueFd fd(::openat(at, place.name.c_str(), flags, 0644));
  if (!fd.is_valid() || ::fstat(fd.get(), &info) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, place.path, errno);
  }
  if (!is_link) HVDRAY_RETURN_IF_ERROR(CheckNotPlanted(place, info));
  if (S_ISREG(info.st_mode) && ::ftruncate(fd.get(), 0) != 0) {
    return FileStatus(ErrorCode::kFileUnwritable, place.path, errno);
  }
  return fd;
}

}  // namespace

Result<std::string> PlaceToWrite(const std::string& path) {
  HVDRAY_ASSIGN_OR_RETURN(PathEnd place, FindPlace(path));
  return std::move(place.path);
}

Result<UniqueFd> OpenForWriting(const std::string& path) {
  if (const int named = DescriptorNamedBy(path); named >= 0) {
    UniqueFd fd(::fcntl(named, F_DUPFD_CLOEXEC, 3));
    if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnwritable, path, errno);
    return fd;
  }
  HVDRAY_ASSIGN_OR_RETURN(const PathEnd place, FindPlace(path));
  return OpenPlace(place);
}

namespace {

// O_EXCL: in a directory that everybody may write to, another user could plant a link of this name.
Result<UniqueFd> OpenTemporary(const PathEnd& place, const std::string& name, mode_t mode) {
  ::unlinkat(place.directory.get(), name.c_str(), 0);
  UniqueFd fd(
      ::openat(place.directory.get(), name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  if (!fd.is_valid()) return FileStatus(ErrorCode::kFileUnwritable, place.path, errno);
  return fd;
}

}  // namespace

Status WriteFileAtomically(const std::string& path, ByteView bytes, mode_t mode) {
  struct stat info {};
  const bool is_special = ::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  if (is_special || DescriptorNamedBy(path) >= 0) {
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenForWriting(path));
    return WriteAll(fd.get(), bytes).WithContext(path);
  }
  // If `path` is a link, replace its target and keep the link.
  HVDRAY_ASSIGN_OR_RETURN(const PathEnd target, FindPlace(path));
  const int at = target.directory.get();
  const std::string temporary = fmt::format("{}.tmp{}", target.name, ::getpid());
  Status status;
  {
    // What only its owner could read stays so, from the first byte.
    const bool is_there = ::fstatat(at, target.name.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0;
    if (is_there) mode = info.st_mode & 0777;
    HVDRAY_ASSIGN_OR_RETURN(UniqueFd fd, OpenTemporary(target, temporary, mode));
    if (is_there) (void)!::fchmod(fd.get(), mode);
    status = WriteAll(fd.get(), bytes);
    if (status.ok() && ::fsync(fd.get()) != 0) status = ErrnoStatus("fsync", errno);
  }
  if (status.ok() && ::renameat(at, temporary.c_str(), at, target.name.c_str()) != 0) {
    status = ErrnoStatus("rename", errno);
  }
  if (!status.ok()) ::unlinkat(at, temporary.c_str(), 0);
  return std::move(status).WithContext(path);
}

bool IsDirectory(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

Status MakeDirs(const std::string& path) {
  PathFault fault;
  if (!WalkToDirectory(path, WalkRule::kOwnLinks, 0755, fault)) return ToStatus(fault);
  return {};
}

}  // namespace hvdray
