// SPDX-License-Identifier: Apache-2.0
// The driver's side of a job on Ray: asks ray_driver.py for slots, waits for them, starts agents
// there and runs the launcher over them, as `hvdray run` does over other hosts. docs/ray.md, "What
// runs where".
#ifndef HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_H_
#define HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "cluster/ray/endpoint_listener.h"
#include "cluster/ray/group_wait.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/ray/ray_hosts.h"
#include "cluster/ray/ray_placement.h"
#include "cluster/ray/ray_transport.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/ray_launch_run.h"

namespace hvdray {

/// What a driver is started with.
struct RayLaunchOptions {
  RayJobFile job;
  std::unique_ptr<ByteStream> python;  ///< The pipe to ray_driver.py.
  int log_fd = 2;                      ///< The job's log.
  TimePoint began{};
  /// How long ray_driver.py may take to send its hello.
  Duration hello_limit{std::chrono::seconds(60)};
};

/// Owns the pipe to ray_driver.py, the placement group and the launcher. Threads: the loop's.
class RayLaunch {
 public:
  RayLaunch(Loop& loop, RayLaunchOptions options);
  ~RayLaunch();

  /// Runs the loop until the job has ended and all Ray resources are returned. Returns the exit
  /// code. Call once.
  int Run();

 private:
  RayBroker::Handlers MakeHandlers();
  void OnHello(BrokerHello hello);
  void OnGroup(const BrokerGroup& group);
  void OnNodes(const BrokerNodes& nodes);
  void OnEndpointStarted(const BrokerEndpointStarted& endpoint);
  void OnEndpointEnded(const BrokerEndpointEnded& endpoint);
  void OnSignal(const BrokerSignal& signal);
  void OnArrival();
  void OnClosed(Status why);

  Status Begin();
  void Reserve(RayRequest request);
  /// When to ask for single slots, if Ray finds no room for bundles of several slots.
  std::optional<TimePoint> TimeForSingleSlots() const;
  void Look();
  void GiveUp(Status why, int exit_code);
  int RunStatic();
  /// The exit code; nullopt: Ray took slots away before any worker started.
  std::optional<int> RunPlaced();
  bool WasTakenAway(const JobReport& report) const;
  bool IsMoved() const;
  bool WaitAgain();
  /// Waits until the group is complete. False: it never will be.
  bool WaitOn();
  void AwaitRaysNotice();
  int RunElastic();
  RayHostsOptions HostsOptions();
  RayTransportOptions TransportOptions(HostSpread spread, size_t host_count) const;
  Duration HeldUp() const;

  Loop& loop_;
  const Duration hello_limit_;
  RayLaunchRun run_;
  BrokerHello hello_;
  std::unique_ptr<RayBroker> broker_;
  std::unique_ptr<EndpointListener> listener_;
  std::unique_ptr<RayTransport> transport_;
  std::unique_ptr<RayHosts> hosts_;   // Elastic jobs only.
  std::optional<BrokerNodes> nodes_;  // The latest table.
  std::optional<GroupWait> wait_;
  RayRequest request_;   // A bundle per slot, or per host if hosts are asked for.
  RayRequest reserved_;  // The same slots, as last asked for.
  std::string group_name_;
  std::optional<TimePoint> refused_since_;  // Since when Ray has no room for reserved_.
  TimePoint reserve_began_{};
  RayPlacement placement_;
  Status taken_;  // Why slots were taken away, while waiting for new ones.
  Watch timer_;
  size_t endpoints_wanted_ = 0;
  size_t endpoints_started_ = 0;
  size_t arrivals_ = 0;
  TimePoint endpoints_began_{};
  std::optional<TimePoint> endpoints_ended_;
};

// Turns a Ray job's file and the slots that Ray granted into a launch plan. Pure.

/// "<directory>/hvdray_<job_id>.<suffix>": a file of the driver, in the session's log directory;
/// the client knows these names. Suffixes: stream, report.json, events.jsonl, trace.json,
/// junit.xml, record.
std::string RayLaunchFile(std::string_view directory, std::string_view job_id,
                          std::string_view suffix);

/// The job's spec as the driver uses it: files are written beside its stream file, there is no
/// stdin, and the default heartbeat timeout is shorter.
JobSpec SpecOnRay(const RayJobFile& job, std::string_view directory);

/// A plan without hosts and ranks; `spec`: from SpecOnRay().
LaunchPlan PlanOnRay(const RayJobFile& job, JobSpec spec);

/// Adds hosts and ranks to `plan`. Errors: those of AssignRanks().
Status PlaceStatic(const RayPlacement& placement, LaunchPlan* plan);

/// hvdray-agent launch DIRECTORY: the driver of a job on Ray; runs inside the cluster as a child of
/// ray_driver.py. `words`: the arguments after "launch". Blocks until the job has ended. Returns
/// the job's exit code.
int RayLaunchMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_RAY_LAUNCH_H_
