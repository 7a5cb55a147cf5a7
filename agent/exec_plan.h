// What a worker executes, worked out before the fork so that the child only calls execve on ready
// paths (style P4). Looks at the file system; starts nothing.
#ifndef HVDRAY_AGENT_EXEC_PLAN_H_
#define HVDRAY_AGENT_EXEC_PLAN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

/// One command of a generation; the same for all its workers.
struct ExecPlan {
  std::string working_folder;      ///< chdir first; empty: stay.
  std::vector<std::string> argv;   ///< Never empty.
  std::vector<std::string> paths;  ///< Tried in this order; relative to working_folder.
  /// Some of `paths` may be executed: that execve says ENOENT then means its interpreter is
  /// missing.
  bool has_executable = false;
  /// errno when `paths` is empty: nothing of that name exists.
  int error = 0;
};

/// `path_variable`: PATH of the worker's own environment; nullopt: unset, as confstr(_CS_PATH). A
/// command with a slash is taken as it is. Order and errors are those of execvp (POSIX exec(3p)):
/// entries that do not exist are left out, all others are for execve to judge.
ExecPlan PlanExec(const std::vector<std::string>& command,
                  std::optional<std::string_view> path_variable, const std::string& working_folder);

/// The value of PATH in "NAME=VALUE" strings; of two the first counts.
std::optional<std::string_view> FindPath(const std::vector<std::string>& environment);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_EXEC_PLAN_H_
