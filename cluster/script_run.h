// One run of a shell command whose output is wanted: bounded in time and in size.
#ifndef HVDRAY_CLUSTER_SCRIPT_RUN_H_
#define HVDRAY_CLUSTER_SCRIPT_RUN_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "base/fd.h"
#include "base/loop.h"
#include "base/result.h"
#include "cluster/helper_spawn.h"

namespace hvdray {

struct ScriptRunOptions {
  std::string command;  ///< For /bin/sh -c.
  Duration limit{std::chrono::seconds(30)};
  size_t max_output_bytes = size_t{8} << 20;
  /// Called with each line of its stderr, without the line's end; must not destroy the run. Empty:
  /// its stderr is ours.
  std::function<void(std::string line)> on_stderr;
};

/// Ends when destroyed: then its process group is killed. Threads: the loop's, which outlives it.
class ScriptRun {
 public:
  /// What it printed, once the shell has exited with code 0, whoever else still holds its stdout.
  /// Errors, without the command's name: kSpecInvalid (another code, a signal, too much output),
  /// kDeadlineExceeded; its process group has been killed then, where it had not ended.
  using DoneFn = std::function<void(Result<std::string> output)>;

  /// `on_done`: once, from the loop; may destroy the run. Errors: as SpawnHelper().
  static Result<std::unique_ptr<ScriptRun>> Start(Loop& loop, ScriptRunOptions options,
                                                  DoneFn on_done);
  ~ScriptRun();
  ScriptRun(const ScriptRun&) = delete;
  ScriptRun& operator=(const ScriptRun&) = delete;

 private:
  ScriptRun(ScriptRunOptions options, DoneFn on_done);
  enum class PipeState : uint8_t { kOpen, kEmpty, kEnded };

  PipeState ReadOutput();
  PipeState ReadErrors();
  void FlushErrorLine();
  void GiveUp(Status why);
  void KillGroup() const;
  void OnExit();
  Status Explain(int wait_status) const;

  ScriptRunOptions options_;
  DoneFn on_done_;
  Helper helper_;
  UniqueFd output_fd_;
  UniqueFd error_fd_;
  std::string output_;
  std::string error_line_;       // not ended yet
  std::string last_error_line_;  // that was not blank
  Status why_;                   // we ended it
  Watch output_watch_;
  Watch error_watch_;
  Watch exit_watch_;
  Watch limit_watch_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SCRIPT_RUN_H_
