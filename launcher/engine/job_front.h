// The side of a job that faces the person, the same for every driver: its output, the signals that
// stop and pause it, a reader that does not read, the order of its end. Decides nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_FRONT_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_FRONT_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "launcher/engine/agent_set.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/job_output.h"
#include "launcher/report/progress.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// Called from the loop, never from within a call to the front, but on_consumed.
struct JobFrontHandlers {
  std::function<void(int signo)> on_stop_signal;
  std::function<void(int signo)> on_forward_signal;  ///< For the workers.
  std::function<void()> on_reader_gone;
  std::function<void(Status why)> on_damaged;
  std::function<void(bool is_blocked)> on_output_blocked;
  /// See JobOutputHandlers.
  std::function<void(int worker, uint32_t bytes)> on_consumed;
};

/// Threads: the loop's.
class JobFront {
 public:
  /// Opens the output. Loop, trace, spec and agents outlive it. Errors: kFileUnwritable.
  /// record_fd: see JobOutputOptions.
  static Result<std::unique_ptr<JobFront>> Open(Loop& loop, Trace& trace, const JobSpec& spec,
                                                const Environment& environment, AgentSet& agents,
                                                JobFrontHandlers handlers, int record_fd = -1);

  JobOutput& output() { return *output_; }
  /// "hvdray: text" for the person, unless -q.
  void Say(std::string_view text);
  void ShowProgress(const StartProgress& progress);

  /// Takes the signals over, calls `begin` and runs the loop until Finish() is through.
  void Run(const std::function<void()>& begin);
  /// The job is over: writes what is queued, tells `on_drained` how that went, says Bye to the
  /// agents and waits for their carriers, calls `on_closed` and stops the loop.
  void Finish(std::function<void(Status drained)> on_drained, std::function<void()> on_closed);
  /// What SIGINT and its like do; ours come here too.
  void OnStopSignal(int signo);
  bool is_finishing() const { return is_finishing_; }
  /// What ^Z sends before it stops us; the generation of its heartbeats.
  void SetGeneration(Generation generation) { generation_ = generation; }

  /// See Launcher::Print().
  void Print(std::span<const std::string> lines);

 private:
  JobFront(Loop& loop, Trace& trace, const JobSpec& spec, const Environment& environment,
           AgentSet& agents, JobFrontHandlers handlers);
  void Pause(const std::function<void()>& stop_now);
  void WaitFlushed(const std::function<void()>& then, TimePoint until);
  void WatchReader();
  std::optional<Duration> DrainLimit() const;

  Loop& loop_;
  Trace& trace_;
  const JobSpec& spec_;
  const Environment& environment_;
  AgentSet& agents_;
  JobFrontHandlers handlers_;
  std::unique_ptr<JobOutput> output_;
  TerminalStyle style_;
  Generation generation_ = 0;
  bool is_finishing_ = false;
  bool was_blocked_ = false;
  std::optional<TimePoint> told_to_stop_at_;
  Watch pause_timer_;
  Watch blocked_timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_FRONT_H_
