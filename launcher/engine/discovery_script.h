// SPDX-License-Identifier: Apache-2.0
// Hosts that a user's command prints, run again and again (--host-discovery-script).
#ifndef HVDRAY_LAUNCHER_ENGINE_DISCOVERY_SCRIPT_H_
#define HVDRAY_LAUNCHER_ENGINE_DISCOVERY_SCRIPT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "cluster/transport/child_process.h"
#include "launcher/engine/host_source.h"

namespace hvdray {

/// The command, its schedule and its limits.
struct DiscoveryScriptOptions {
  std::string command;  ///< For /bin/sh -c, so it may have arguments and need no #! line.
  Duration interval{std::chrono::seconds(1)};  ///< From the end of one run to the next start.
  /// A run that takes longer is killed with its process group and counts as failed.
  Duration limit{std::chrono::seconds(30)};
  size_t max_output_bytes = size_t{8} << 20;  ///< A run that prints more is killed and has failed.
  ParseHosts parse;
  /// Called with each line of its stderr; must not stop the source. Empty: it inherits our stderr.
  std::function<void(std::string line)> on_stderr;
};

/// Runs the command once at a time, at first immediately. A run fails by any exit code but 0, by a
/// signal, by the limits, and by output that `parse` rejects: kSpecInvalid, kDeadlineExceeded; the
/// message names the script and the last line of its stderr. Warnings of `parse` are logged.
/// Start() fails as CheckDiscoveryCommand(). Stop() kills a running command. The loop outlives the
/// source. docs/elastic.md, "Where hosts come from".
std::unique_ptr<HostSource> MakeDiscoveryScript(Loop& loop, DiscoveryScriptOptions options);

/// Checks the command without running it: only its first word, and only a path without characters
/// that the shell would expand. Errors: kUsage for an empty command, a directory, or a file that is
/// not executable; kFileUnreadable for a missing file.
Status CheckDiscoveryCommand(const std::string& command);

/// One run of the command. Kills its process group when destroyed. Threads: the loop's, which
/// outlives it.
class ScriptRun {
 public:
  /// The stdout of a shell that exited with code 0. Does not wait for grandchildren that still hold
  /// the pipe open. Errors, without the command's name: kSpecInvalid (another code, a signal, too
  /// much output), kDeadlineExceeded; the process group is killed if the run still goes on.
  using DoneFn = std::function<void(Result<std::string> output)>;

  /// Uses the command, its limits and on_stderr of `options`. Calls `on_done` once. Errors: as
  /// SpawnHelper().
  static Result<std::unique_ptr<ScriptRun>> Start(Loop& loop, DiscoveryScriptOptions options,
                                                  DoneFn on_done);
  ~ScriptRun();
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

 private:
  ScriptRun(DiscoveryScriptOptions options, DoneFn on_done);
  enum class PipeState : uint8_t { kOpen, kEmpty, kEnded };

  PipeState ReadOutput();
  PipeState ReadErrors();
  void FlushErrorLine();
  void GiveUp(Status why);
  void KillGroup() const;
  void OnExit();
  Status Explain(int wait_status) const;

  DiscoveryScriptOptions options_;
  DoneFn on_done_;
  Helper helper_;
  UniqueFd output_fd_;
  UniqueFd error_fd_;
  std::string output_;
  std::string error_line_;       // unfinished
  std::string last_error_line_;  // the last non-blank one
  Status why_;                   // why we killed it; ok: we did not
  Watch output_watch_;
  Watch error_watch_;
  Watch exit_watch_;
  Watch limit_watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_DISCOVERY_SCRIPT_H_
