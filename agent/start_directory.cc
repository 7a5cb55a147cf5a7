// SPDX-License-Identifier: Apache-2.0
#include "agent/start_directory.h"

#include <fmt/format.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "base/path_walk.h"

namespace hvdray {

std::string DistrustOfDirectory(const std::string& directory, const wire::DirectoryTrust& trust) {
  PathFault fault;
  if (directory.empty() || !trust.is_checked ||
      WalkToDirectory(directory, WalkRule::kOwnDirectories, std::nullopt, fault, trust.trustees) ||
      fault.error != 0) {
    return {};
  }
  return fmt::format("{} {}: they could change what runs in {}", fault.what, fault.path, directory);
}

int SettleStartDirectory(wire::StartGeneration& start) {
  if (start.working_directory.empty()) return 0;
  std::string fault = DistrustOfDirectory(start.working_directory, start.directory_trust);
  if (!start.is_directory_optional) {
    if (!fault.empty()) Log(LogLevel::kWarning, "agent", "{}", fault);
    return fault.empty() ? 0 : EPERM;
  }
  if (fault.empty() && IsDirectory(start.working_directory)) return 0;
  if (fault.empty()) fault = fmt::format("no directory {} here", start.working_directory);
  std::error_code ignored;
  Log(LogLevel::kWarning, "agent", "{}: workers start in {}", fault,
      std::filesystem::current_path(ignored).string());
  start.working_directory.clear();
  return 0;
}

}  // namespace hvdray
