// A job on Ray from its driver's side: asks ray_driver.py for slots, waits for them,
// has agents started there and runs the launcher over them, as `hvdray run` does over other hosts.
#ifndef HVDRAY_LAUNCHER_RAY_DRIVE_JOB_H_
#define HVDRAY_LAUNCHER_RAY_DRIVE_JOB_H_

#include <memory>
#include <optional>
#include <string>

#include "base/byte_stream.h"
#include "base/loop.h"
#include "cluster/ray/group_wait.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/ray/ray_hosts.h"
#include "cluster/ray/ray_placement.h"
#include "cluster/ray/ray_transport.h"
#include "cluster/ray/seat_listener.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/ray/drive_run.h"

namespace hvdray {

struct DriveJobOptions {
  RayJobFile job;
  std::unique_ptr<ByteStream> python;  ///< The pipe to ray_driver.py.
  int log_fd = 2;                      ///< The job's log.
  TimePoint began{};
  /// How long ray_driver.py may take to say hello.
  Duration hello_limit{std::chrono::seconds(60)};
};

/// Threads: the loop's.
class DriveJob {
 public:
  DriveJob(Loop& loop, DriveJobOptions options);
  ~DriveJob();

  /// Runs the loop until the job has ended, and everything that it had of Ray is given back.
  /// Returns the exit code. Call once.
  int Run();

 private:
  RayBroker::Handlers MakeHandlers();
  void OnHello(BrokerHello hello);
  void OnGroup(const BrokerGroup& group);
  void OnNodes(const BrokerNodes& nodes);
  void OnSeatStarted(const BrokerSeatStarted& seat);
  void OnSeatEnded(const BrokerSeatEnded& seat);
  void OnSignal(const BrokerSignal& signal);
  void OnArrival();
  void OnClosed(Status why);

  Status Begin();
  void Reserve(RayRequest request);
  /// Ray finds no room for bundles of a node's slots, and may for single slots.
  std::optional<TimePoint> TimeForSingleSlots() const;
  void Look();
  void GiveUp(Status why, int exit_code);
  int RunStatic();
  /// The exit code; nullopt: Ray took slots away before a worker had started.
  std::optional<int> RunPlaced();
  bool WasTakenAway(const JobReport& report) const;
  bool IsMoved() const;
  bool WaitAgain();
  /// Until the group is whole. false: it never will be.
  bool WaitOn();
  void AwaitRaysNotice();
  int RunElastic();
  RayHostsOptions HostsOptions();
  RayTransportOptions TransportOptions(HostSpread spread, size_t host_count) const;
  Duration HeldUp() const;

  Loop& loop_;
  const Duration hello_limit_;
  DriveRun run_;
  BrokerHello hello_;
  std::unique_ptr<RayBroker> broker_;
  std::unique_ptr<SeatListener> listener_;
  std::unique_ptr<RayTransport> transport_;
  std::unique_ptr<RayHosts> hosts_;   // Of an elastic job.
  std::optional<BrokerNodes> nodes_;  // The last table.
  std::optional<GroupWait> wait_;
  RayRequest request_;   // A bundle for each slot, or for each host where hosts are asked for.
  RayRequest reserved_;  // The same slots as they were asked for last.
  std::string group_name_;
  std::optional<TimePoint> refused_since_;  // Ray has found no room for reserved_.
  TimePoint reserve_began_{};
  RayPlacement placement_;
  Status taken_;  // What took slots away, while they are waited for again.
  Watch timer_;
  size_t seats_wanted_ = 0;
  size_t seats_started_ = 0;
  size_t arrivals_ = 0;
  TimePoint seats_began_{};
  std::optional<TimePoint> seats_ended_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_DRIVE_JOB_H_
