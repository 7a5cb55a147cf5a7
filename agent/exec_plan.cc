// SPDX-License-Identifier: Apache-2.0
#include "agent/exec_plan.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace hvdray {
namespace {

constexpr std::string_view kDefaultPath = "/bin:/usr/bin";  // glibc's confstr(_CS_PATH)

std::string Join(const std::string& directory, const std::string& path) {
  if (directory.empty() || path.starts_with('/')) return path;
  return directory + "/" + path;
}

// Adds the path unless it does not exist; execve judges paths that can't be examined.
void Consider(ExecPlan& plan, std::string path) {
  const std::string seen_from_here = Join(plan.working_directory, path);
  struct stat info {};
  if (::stat(seen_from_here.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) {
    plan.error = errno;
    return;
  }
  if (S_ISREG(info.st_mode) &&
      ::faccessat(AT_FDCWD, seen_from_here.c_str(), X_OK, AT_EACCESS) == 0) {
    plan.has_executable = true;
  }
  plan.paths.push_back(std::move(path));
}

}  // namespace

ExecPlan PlanExec(const std::vector<std::string>& command,
                  std::optional<std::string_view> path_variable,
                  const std::string& working_directory) {
  ExecPlan plan;
  plan.working_directory = working_directory;
  plan.argv = command;
  plan.error = ENOENT;
  if (command.empty() || command[0].empty()) {
    plan.argv.resize(1);
    return plan;
  }
  const std::string& name = command[0];
  struct stat directory {};
  if (!working_directory.empty() &&
      (::stat(working_directory.c_str(), &directory) != 0 || !S_ISDIR(directory.st_mode))) {
    plan.paths.push_back(name);  // chdir will report the directory's error.
  } else if (name.find('/') != std::string::npos) {
    Consider(plan, name);
  } else {
    std::string_view rest = path_variable.value_or(kDefaultPath);
    for (;;) {
      const size_t colon = rest.find(':');
      const std::string_view entry = rest.substr(0, colon);
      Consider(plan, entry.empty() ? "./" + name : std::string(entry) + "/" + name);
      if (colon == std::string_view::npos) break;
      rest.remove_prefix(colon + 1);
    }
    if (plan.paths.empty()) plan.error = ENOENT;
  }
  if (!plan.paths.empty()) plan.error = 0;
  return plan;
}

std::optional<std::string_view> FindPath(const std::vector<std::string>& environment) {
  constexpr std::string_view kPrefix = "PATH=";
  for (const std::string& entry : environment) {
    if (entry.starts_with(kPrefix)) return std::string_view(entry).substr(kPrefix.size());
  }
  return std::nullopt;
}

}  // namespace hvdray
