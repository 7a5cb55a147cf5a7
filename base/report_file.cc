// SPDX-License-Identifier: Apache-2.0
#include "base/report_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/file.h"

namespace hvdray {

Status CheckReportPath(const std::string& path, std::string_view flag) {
  const auto refuse = [&](const std::string& place, int error) {
    return ErrnoStatus(place, error).WithContext(flag).WithCode(ErrorCode::kFileUnwritable);
  };
  if (path.empty()) return {};
  if (path.back() == '/') return refuse(path, EISDIR);
  if (const int fd = DescriptorNamedBy(path); fd >= 0) {
    return ::fcntl(fd, F_GETFD) >= 0 ? Status() : refuse(path, errno);
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return refuse(path, EISDIR);
    if (!S_ISREG(info.st_mode)) {
      return ::access(path.c_str(), W_OK) == 0 ? Status() : refuse(path, errno);
    }
  } else if (errno != ENOENT) {
    return refuse(path, errno);
  }
  const Result<std::string> target = PlaceToWrite(path);
  if (!target.ok()) return Status(target.status()).WithContext(flag);
  // The file is replaced as a whole, so its directory must accept a new one.
  const size_t slash = target->rfind('/');
  const std::string directory = slash == std::string::npos ? "." : target->substr(0, slash + 1);
  if (::access(directory.c_str(), W_OK | X_OK) != 0) return refuse(directory, errno);
  return {};
}

Status WriteReportFile(const std::string& path, std::string_view flag, std::string_view text) {
  Status written = WriteFileAtomically(path, text);
  const bool is_reader_gone = !written.ok() && errno == EPIPE;
  return std::move(written).WithContext(flag).WithCode(is_reader_gone ? ErrorCode::kReaderGone
                                                                      : ErrorCode::kOutputLost);
}

std::string FileBehind(const std::string& path) {
  namespace fs = std::filesystem;
  if (path.empty() || DescriptorNamedBy(path) >= 0) return {};
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error || (fs::exists(real, error) && !fs::is_regular_file(real, error))) return {};
  return real.string();
}

Status OutputLost(std::string_view where, int error) {
  if (error == EPIPE)
    return {ErrorCode::kReaderGone, fmt::format("the reader of {} went away", where)};
  if (error == EBADF) {
    return {ErrorCode::kOutputLost, fmt::format("write to {}: it is closed", where),
            "send it to a file, or to /dev/null if nobody needs it"};
  }
  return {ErrorCode::kOutputLost, fmt::format("write to {}: {}", where, ::strerror(error)),
          "free space there, or send it elsewhere"};
}

}  // namespace hvdray
