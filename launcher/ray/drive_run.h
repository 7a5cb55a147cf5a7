// The part of a job's driver on Ray that does not ask where hosts come from: its settings, its log,
// the launcher over hosts that are known, and the end.
#ifndef HVDRAY_LAUNCHER_RAY_DRIVE_RUN_H_
#define HVDRAY_LAUNCHER_RAY_DRIVE_RUN_H_

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
#include "launcher/ray/drive_log.h"
#include "launcher/report/trace.h"

namespace hvdray {

inline constexpr int kDriveFailed = 125;

/// Threads: the loop's.
class DriveRun {
 public:
  using PrintFn = std::function<void(std::span<const std::string> lines)>;

  DriveRun(Loop& loop, RayJobFile job, int log_fd, TimePoint began);

  const RayJobFile& job() const { return job_; }
  const JobSpec& spec() const { return spec_; }
  DriveLog& log() { return log_; }
  TimePoint began() const { return began_; }
  std::chrono::system_clock::time_point began_wall() const { return began_wall_; }

  /// Opens the stream file in `logs`, and has the launcher write its files there. Errors:
  /// kFileUnwritable.
  Status Open(const std::string& logs);

  /// Runs the loop while hosts are waited for: until somebody stops it, or GiveUp().
  void Wait();
  /// The job ends before it had its hosts: EndEarly() does the rest. The first one counts.
  void GiveUp(Status why, int exit_code);
  bool has_failed() const { return failure_.has_value(); }

  /// As if the launcher had got the signal; before there is one: GiveUp().
  void StopBy(int signo);
  /// Who held us is gone: the job ends, and `why` is told unless a worker is to blame.
  void Orphan(Status why);
  bool is_orphaned() const { return orphaned_.has_value(); }
  /// While a launcher runs, and after that.
  bool is_launched() const { return stop_ != nullptr; }
  /// How the launcher that runs from now on is stopped; of one that is not Launch()'s.
  void OnStop(std::function<void(int signo)> stop) { stop_ = std::move(stop); }

  /// Hosts, ranks and settings. Errors: those of PlaceStatic().
  Result<LaunchPlan> PlanFor(const RayPlacement& placement);
  LaunchPlan PlanWithoutHosts() const;

  /// A static job over `plan`, whose hosts `transport` reaches. reserve_began: when Ray was asked
  /// for them. Returns the exit code; nullopt: `is_final` says of the report that it is not the
  /// end, so that nothing was reported, and hosts may be waited for again.
  std::optional<int> Launch(LaunchPlan plan, Transport& transport, TimePoint reserve_began,
                            const std::function<bool(const JobReport&)>& is_final);

  /// Reports, and the stream's last record. Returns the exit code.
  int End(Trace& trace, JobReport report, const PrintFn& print);
  /// After GiveUp().
  int EndEarly();

 private:
  Loop& loop_;
  const RayJobFile job_;
  JobSpec spec_;
  const TimePoint began_;
  const std::chrono::system_clock::time_point began_wall_;
  DriveLog log_;
  std::optional<Status> failure_;
  int failure_code_ = 0;
  std::optional<Status> orphaned_;
  Watch pulse_;
  Watch roll_;
  std::function<void(int signo)> stop_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_DRIVE_RUN_H_
