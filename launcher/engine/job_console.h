// SPDX-License-Identifier: Apache-2.0
// The user's side of a job, the same for every driver: its output, the signals that stop and pause
// it, a reader that does not read, the order of shutdown. Decides nothing.
#ifndef HVDRAY_LAUNCHER_ENGINE_JOB_CONSOLE_H_
#define HVDRAY_LAUNCHER_ENGINE_JOB_CONSOLE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.h"
#include "base/loop.h"
#include "launcher/driver/events.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/signals.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/event_log.h"
#include "launcher/report/job_output.h"
#include "launcher/report/job_report.h"
#include "launcher/report/progress.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// What the user does to a job: a stop signal, a reader that goes, files that can't be written,
/// output that is not read.
using UserEvent =
    std::variant<event::UserSignal, event::ReaderGone, event::OutputDamaged, event::OutputBlocked>;

/// Owns the job's output and signal handlers. Threads: the loop's.
class JobConsole {
 public:
  /// Called from the loop; all but OnConsumed() never from within a call to JobConsole.
  class Owner {
   public:
    virtual void OnUserEvent(UserEvent event) = 0;
    /// SIGUSR1 or SIGUSR2, to pass on to the workers.
    virtual void OnForwardSignal(int signo) = 0;
    /// See JobOutputHandlers.
    virtual void OnConsumed(int worker, uint32_t bytes) = 0;

   protected:
    ~Owner() = default;
  };

  /// Opens the output. Loop, trace, spec, environment, agents and owner outlive it. `record_fd`:
  /// see JobOutputOptions. Errors: kFileUnwritable.
  static Result<std::unique_ptr<JobConsole>> Open(Loop& loop, Trace& trace, const JobSpec& spec,
                                                  const Environment& environment, AgentSet& agents,
                                                  Owner& owner, int record_fd = -1);

  JobOutput& output() { return *output_; }
  /// Prints "hvdray: text" to the user, unless -q.
  void Say(std::string_view text);
  /// Updates the progress line on a terminal.
  void ShowProgress(const StartProgress& progress);

  /// Installs the signal handlers and takes over the log, until the end of Run().
  void Begin();
  /// Runs the loop until Finish() is complete. Call once, after Begin().
  void Run();
  /// The job is over: writes what is queued, calls `on_drained` with the result, sends Bye to the
  /// agents and waits for their carriers, calls `on_closed` and stops the loop.
  void Finish(std::function<void(Status drained)> on_drained, std::function<void()> on_closed);
  /// Handles a stop signal; also called for signals that hvdray raises itself.
  void OnStopSignal(int signo);
  bool is_finishing() const { return is_finishing_; }
  /// The messages, in order, that make a host's agent stop its workers: by SIGINT first if that is
  /// wanted, or if the newest stop signal is the first one and asks for it. Logs the way.
  std::vector<wire::Body> StopOrders(Duration grace, bool wants_sigint_first = false) const;
  /// The generation of the heartbeats that announce a pause (^Z).
  void SetGeneration(Generation generation) { generation_ = generation; }

  /// After Run(): the report, as far as it is the same for every driver. `last`: of the worker
  /// that failed first.
  JobReport BeginReport(const LaunchPlan& plan, Verdict verdict, LastWords last) const;
  /// See Launcher::Print().
  void Print(std::span<const std::string> lines);

 private:
  JobConsole(Loop& loop, Trace& trace, const JobSpec& spec, const Environment& environment,
             AgentSet& agents, Owner& owner);
  void Pause(const std::function<void()>& stop_now);
  void WaitFlushed(const std::function<void()>& then, TimePoint until);
  void WatchReader();
  std::optional<Duration> DrainLimit() const;

  Loop& loop_;
  Trace& trace_;
  const JobSpec& spec_;
  const Environment& environment_;
  AgentSet& agents_;
  Owner& owner_;
  std::unique_ptr<JobOutput> output_;
  TerminalStyle style_;
  std::optional<UserSignals> signals_;  // from Begin() to Run(), like the next two
  std::optional<LogSink> log_;
  Generation generation_ = 0;
  bool is_finishing_ = false;
  bool is_sigint_first_ = false;
  bool was_blocked_ = false;
  bool is_pause_told_ = false;
  std::optional<TimePoint> told_to_stop_at_;
  Watch pause_timer_;
  Watch blocked_timer_;
};

// Which files a job writes, from its plan. Pure, except for the check that they can be written.

/// The names of a plan's hosts, by host index.
std::vector<std::string> Names(const std::vector<HostSlots>& hosts);

/// The start of messages about a file that an option names: "--report", or, for a job file,
/// "job.yaml:4:9: report".
std::string NamedBy(const Setting<std::string>& file, std::string_view option);

/// Checks --report, --junit and --trace before anything is started. Errors: kFileUnwritable.
Status CheckReportPaths(const JobSpec& spec);

/// The settings of the output from a resolved spec.
JobOutputOptions OutputOptions(const JobSpec& spec);

/// The settings of --events, without on_damaged.
EventLogOptions EventOptions(const LaunchPlan& plan);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_JOB_CONSOLE_H_
