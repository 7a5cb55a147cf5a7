// Applies what a driver decides: starts agents, sends messages, serves the store, moves output,
// writes events, trace and reports. Decides nothing itself; owns the loop's side of a job.
#ifndef HVDRAY_LAUNCHER_ENGINE_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_LAUNCHER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/loop.h"
#include "cluster/transport.h"
#include "launcher/engine/sync_plan.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/nic_select.h"
#include "launcher/job/placement.h"
#include "launcher/report/job_report.h"
#include "launcher/report/trace.h"
#include "wire/message.h"

namespace hvdray {

/// What differs for a driver that runs inside a cluster; the defaults are those of `hvdray run`.
struct PlanPlace {
  /// Workers have their host's own environment, with the job's over it.
  bool is_on_own_environment = false;
  wire::GpuVisibility gpu_visibility = wire::GpuVisibility::kInherited;
  /// What workers take for the name of each host (HOROVOD_HOSTNAME), where people call it by
  /// another. Empty: the same; else as many as hosts.
  std::vector<std::string> worker_host_names;
  int record_fd = -1;  ///< See JobOutputOptions.
  /// When the time for starting begins to count, where that is not `began`.
  std::optional<TimePoint> start_clock;
  /// See GangPolicy: time that the start of agents took because of others.
  std::function<Duration()> held_up = {};
};

/// A job that is ready to start. Plain data.
struct LaunchPlan {
  JobSpec spec;
  std::vector<HostSlots> hosts;  ///< Only hosts that get workers, in rank order.
  std::vector<bool> is_remote;   ///< As many as hosts: reached over the network.
  HostSpread spread = HostSpread::kOneMachine;
  std::vector<RankInfo> ranks;              ///< host_index points into `hosts`.
  std::vector<SyncedFolder> synced;         ///< What other hosts get a copy of (--sync).
  std::optional<SyncedPlace> worker_place;  ///< Where workers start, if that is in one of them.
  Environment environment;                  ///< Of hvdray itself.
  std::string current_folder;  ///< Of hvdray: where workers on other hosts start, if it is there.
  std::string job_id;
  std::string build;
  TimePoint began{};  ///< When hvdray was called.
  std::chrono::system_clock::time_point began_wall{};
  PlanPlace place;  ///< Of a job whose driver is not where its person is.
};

class Launcher {
 public:
  /// Opens all files that the job writes, so that a wrong path stops it before anything is started.
  /// Loop, transport and trace outlive the launcher. Errors: kFileUnwritable.
  static Result<std::unique_ptr<Launcher>> Open(Loop& loop, Transport& transport, Trace& trace,
                                                LaunchPlan plan);
  virtual ~Launcher() = default;

  /// As if this process had got it: SIGINT, SIGTERM, SIGQUIT or SIGHUP. While Run() runs.
  virtual void StopBy(int signo) = 0;
  /// Runs the loop until the job has ended, its output is written and its agents are gone. Takes
  /// SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 (those not ignored when hvdray began) and
  /// SIGTSTP over meanwhile.
  /// Call once.
  virtual JobReport Run() = 0;

  /// After Run(): lines for stderr (their '\n' is added), behind all output and never in the middle
  /// of a line of it. Waits for the reader as Run() did: after a stop that somebody asked for
  /// some seconds, else as long as it takes; signals have their old meaning again.
  virtual void Print(std::span<const std::string> lines) = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_LAUNCHER_H_
