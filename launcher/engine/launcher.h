// SPDX-License-Identifier: Apache-2.0
// Runs one job: applies the decisions of its driver, starts agents, sends messages, serves the
// store, moves output, writes events, trace and reports. Decides nothing itself. This header has
// what all kinds of jobs share: the plan and the interface.
#ifndef HVDRAY_LAUNCHER_ENGINE_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_LAUNCHER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environ.h"
#include "base/loop.h"
#include "cluster/transport/transport.h"
#include "launcher/engine/sync_plan.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/nic_select.h"
#include "launcher/job/placement.h"
#include "launcher/report/job_report.h"
#include "launcher/report/trace.h"
#include "wire/message.h"

namespace hvdray {

/// What differs when the driver runs inside a cluster; the defaults are those of `hvdray run`.
struct PlanPlace {
  /// Workers get their host's own environment, with the job's variables on top.
  bool is_on_own_environment = false;
  wire::GpuVisibility gpu_visibility = wire::GpuVisibility::kInherited;
  /// The host names that workers see (HOROVOD_HOSTNAME), if users know the hosts by others. Empty:
  /// the same names; else one per host.
  std::vector<std::string> worker_host_names;
  int record_fd = -1;  ///< See JobOutputOptions.
  /// Start of --start-timeout, if not `began`.
  std::optional<TimePoint> start_clock;
  /// See GangPolicy::held_up.
  std::function<Duration()> held_up = {};
};

/// A job that is ready to start. Plain data; made by the commands, const afterwards.
struct LaunchPlan {
  JobSpec spec;
  std::vector<HostSlots> hosts;  ///< Only hosts that get workers, in rank order.
  std::vector<bool> is_remote;   ///< One per host: reached over the network.
  HostSpread spread = HostSpread::kOneMachine;
  std::vector<RankInfo> ranks;              ///< host_index points into `hosts`.
  DirectoryRules sync_rules;                ///< What --sync copies of a directory.
  std::vector<SyncedDirectory> synced;      ///< Directories copied to other hosts (--sync).
  std::optional<SyncedPlace> worker_place;  ///< Where workers start, if within one of these.
  Environment environment;                  ///< Of hvdray itself.
  std::string current_directory;            ///< Of hvdray: workers on other hosts start there.
  Trustees directory_trustees;              ///< Of where workers start, seen from this machine.
  std::string job_id;
  std::string build;
  TimePoint began{};  ///< When hvdray was called.
  std::chrono::system_clock::time_point began_wall{};
  PlanPlace place;  ///< Set for a job whose driver runs inside a cluster.
};

/// One job, ready to run; made by OpenJob(). Owns driver, agents, store and output. Threads: the
/// loop's.
class Launcher {
 public:
  virtual ~Launcher() = default;

  /// Acts as if this process had got SIGINT, SIGTERM, SIGQUIT or SIGHUP. Only during Run().
  virtual void StopBy(int signo) = 0;
  /// Runs the loop until the job has ended, its output is written and its agents are gone.
  /// Meanwhile handles SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 (unless ignored when
  /// hvdray began) and SIGTSTP. Call once.
  virtual JobReport Run() = 0;
  /// The host source announces that a host leaves (its agent may, too): an elastic job moves its
  /// workers elsewhere, others stay. Unknown hosts are ignored.
  virtual void HostLeaves(const std::string& host, Duration in) = 0;
  /// Prints a line to stderr while the job runs, in order with all output.
  virtual void Say(std::string_view line) = 0;

  /// After Run(): writes lines to stderr (adding '\n'), after all output and never in the middle of
  /// one of its lines. Waits for the reader as Run() did: some seconds after a requested stop, else
  /// as long as it takes. Signals have their default effect again.
  virtual void Print(std::span<const std::string> lines) = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_LAUNCHER_H_
