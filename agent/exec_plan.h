// SPDX-License-Identifier: Apache-2.0
// Resolves what a worker executes before the fork, so that the child only calls execve on ready
// paths: after fork, it may use async-signal-safe functions only. Reads the file system; starts
// nothing.
#ifndef HVDRAY_AGENT_EXEC_PLAN_H_
#define HVDRAY_AGENT_EXEC_PLAN_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdray {

/// One command of a generation; the same for all its workers.
struct ExecPlan {
  std::string working_directory;   ///< The child's chdir target; empty: no chdir.
  std::vector<std::string> argv;   ///< Never empty.
  std::vector<std::string> paths;  ///< Tried in this order; relative to working_directory.
  /// One of `paths` is an executable file: ENOENT from its execve means a missing interpreter.
  bool has_executable = false;
  /// errno if `paths` is empty, as no file of that name exists; else 0.
  int error = 0;
};

/// `path_variable`: PATH in the worker's own environment; nullopt: unset, so confstr(_CS_PATH)'s
/// default applies. A command with a slash is not searched for. Order and errors follow execvp
/// (POSIX exec(3p)): leaves out entries that do not exist; execve judges the rest.
ExecPlan PlanExec(const std::vector<std::string>& command,
                  std::optional<std::string_view> path_variable,
                  const std::string& working_directory);

/// The value of PATH in "NAME=VALUE" strings, pointing into them; the first of two entries counts.
std::optional<std::string_view> FindPath(const std::vector<std::string>& environment);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_EXEC_PLAN_H_
