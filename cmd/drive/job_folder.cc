#include "cmd/drive/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "base/fd.h"
#include "launcher/agent/agent_run.h"

namespace hvdray {
namespace {

constexpr const char* kFolderOfPackage = "hvdray_job";
constexpr mode_t kOwnersAlone = 0600;

Result<std::string> ReadWhole(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.is_valid()) return ErrnoStatus("open", errno);
  std::string text;
  std::string piece(size_t{64} << 10, '\0');
  for (;;) {
    const ssize_t n = ::read(file.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus("read", errno);
    if (n == 0) return text;
    text.append(piece, 0, static_cast<size_t>(n));
    if (text.size() > kMaxRayJobFileBytes) {
      return Status(ErrorCode::kFileUnreadable, "it is larger than any that a client writes");
    }
  }
}

}  // namespace

Result<RayJobFile> LoadJob(const std::string& folder) {
  const std::string path = fmt::format("{}/{}", folder, kRayJobFileName);
  Result<std::string> text = ReadWhole(path);
  if (!text.ok()) {
    return std::move(text).status().WithCode(ErrorCode::kFileUnreadable).WithContext(path);
  }
  Result<RayJobFile> job = ParseRayJobFile(*text);
  if (!job.ok()) {
    return std::move(job).status().WithContext(fmt::format("'{}' reads {}", kAgentBuild, path));
  }
  return job;
}

Result<RayJobFile> LoadJobOf(const std::string& python_path) {
  for (std::string_view rest = python_path; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder = fmt::format("{}/{}", rest.substr(0, end), kFolderOfPackage);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const std::string path = fmt::format("{}/{}", folder, kRayJobFileName);
    if (::access(path.c_str(), F_OK) != 0) continue;
    // Older Rays unpack without modes, and it has the key of the job's links.
    if (::chmod(path.c_str(), kOwnersAlone) != 0) return ErrnoStatus("chmod " + path, errno);
    return LoadJob(folder);
  }
  return Status(ErrorCode::kFileUnreadable,
                fmt::format("no folder of PYTHONPATH has {}/{}", kFolderOfPackage, kRayJobFileName),
                "hvdray run --ray-mode jobs starts this, with a package that holds it");
}

}  // namespace hvdray
