// SPDX-License-Identifier: Apache-2.0
// The part of a Ray job's driver that is independent of the source of hosts: its settings, its log,
// the launcher over known hosts, and the end.
#ifndef HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_RUN_H_
#define HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_RUN_H_

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "base/loop.h"
#include "cluster/ray/ray_placement.h"
#include "cluster/transport.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/ray_launch_log.h"
#include "launcher/report/trace.h"

namespace hvdray {

inline constexpr int kLaunchFailed = 125;

/// Owns spec and log of the job. Threads: the loop's.
class RayLaunchRun {
 public:
  using PrintFn = std::function<void(std::span<const std::string> lines)>;

  RayLaunchRun(Loop& loop, RayJobFile job, int log_fd, TimePoint began);

  const RayJobFile& job() const { return job_; }
  const JobSpec& spec() const { return spec_; }
  RayLaunchLog& log() { return log_; }
  TimePoint began() const { return began_; }
  std::chrono::system_clock::time_point began_wall() const { return began_wall_; }

  /// Opens the stream file in directory `logs`, where the launcher will write its files, too.
  /// Errors: kFileUnwritable.
  Status Open(const std::string& logs);

  /// Runs the loop while the job waits for hosts: until the caller stops the loop, or GiveUp().
  void Wait();
  /// Ends the job before it has hosts; EndEarly() does the rest. The first call counts.
  void GiveUp(Status why, int exit_code);
  bool has_failed() const { return failure_.has_value(); }

  /// Acts as if the launcher had got the signal; before it runs: GiveUp().
  void StopBy(int signo);
  /// The parent (ray_driver.py) is gone: ends the job, with `why` as its error unless a worker is
  /// to blame.
  void Orphan(Status why);
  bool is_orphaned() const { return orphaned_.has_value(); }
  /// A launcher runs or has run.
  bool is_launched() const { return stop_ != nullptr; }
  /// Sets how to stop a launcher that Launch() did not start.
  void OnStop(std::function<void(int signo)> stop) { stop_ = std::move(stop); }

  /// The plan with hosts and ranks. Errors: those of PlaceStatic().
  Result<LaunchPlan> PlanFor(const RayPlacement& placement);
  /// The plan of an elastic job.
  LaunchPlan PlanWithoutHosts() const;

  /// Runs a static job over `plan`, whose hosts `transport` reaches. `reserve_began`: when Ray was
  /// asked for them. Returns the exit code; nullopt: `is_final` rejected the report, so nothing was
  /// reported and the job may wait for hosts again.
  std::optional<int> Launch(LaunchPlan plan, Transport& transport, TimePoint reserve_began,
                            const std::function<bool(const JobReport&)>& is_final);

  /// Writes reports and the stream's last record. Returns the exit code.
  int End(Trace& trace, JobReport report, const PrintFn& print);
  /// The same after GiveUp().
  int EndEarly();

 private:
  Loop& loop_;
  const RayJobFile job_;
  JobSpec spec_;
  const TimePoint began_;
  const std::chrono::system_clock::time_point began_wall_;
  RayLaunchLog log_;
  std::optional<Status> failure_;
  int failure_code_ = 0;
  std::optional<Status> orphaned_;
  Watch pulse_;
  Watch roll_;
  std::function<void(int signo)> stop_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_RUN_H_
