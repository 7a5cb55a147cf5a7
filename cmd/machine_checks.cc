#include "cmd/machine_checks.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace hvdray {
namespace {

/// 0, or why nobody can start in it.
int ErrorOfFolder(const std::string& path) {
  struct stat facts {};
  if (::stat(path.c_str(), &facts) != 0) return errno;
  if (!S_ISDIR(facts.st_mode)) return ENOTDIR;
  return ::access(path.c_str(), X_OK) == 0 ? 0 : errno;
}

}  // namespace

Status CheckFolderHere(const LaunchPlan& plan) {
  const Setting<std::string>& folder = plan.spec.working_folder;
  const bool is_any_here =
      std::find(plan.is_remote.begin(), plan.is_remote.end(), false) != plan.is_remote.end();
  if (folder->empty() || !is_any_here) return {};
  const int error = ErrorOfFolder(*folder);
  if (error == 0) return {};
  return {ErrorCode::kUsage,
          fmt::format("{}: workers cannot start in '{}': {}", folder.origin(), *folder,
                      ::strerror(error)),
          "make that folder, or leave --cwd out: they start where hvdray does"};
}

}  // namespace hvdray
