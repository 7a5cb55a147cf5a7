#include "launcher/ray/job_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "agent/agent_run.h"
#include "base/fd.h"

namespace hvdray {
namespace {

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

}  // namespace hvdray
