// A job on Ray from its driver's side, --ray-mode jobs: the entrypoint of a Ray job on the head.
// The client has settled who sits where, and submitted a job for each node; their agents dial by
// themselves. When all have come, the launcher runs over them. No Python, and nothing is asked of
// Ray.
#ifndef HVDRAY_CMD_DRIVE_DRIVE_SEATS_H_
#define HVDRAY_CMD_DRIVE_DRIVE_SEATS_H_

#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "cluster/ray/seat_listener.h"
#include "cluster/ray/seat_transport.h"
#include "cmd/drive/drive_run.h"
#include "cmd/drive/hurry_pipe.h"
#include "cmd/drive/ray_parents.h"
#include "launcher/agent/lifelines.h"
#include "launcher/spec/ray_job_file.h"

namespace hvdray {

struct DriveSeatsOptions {
  RayJobFile job;  ///< With seats.
  std::string logs;
  RayParents parents;
  int log_fd = 2;  ///< The job's log.
  TimePoint began{};
};

/// Threads: the loop's.
class DriveSeats {
 public:
  DriveSeats(Loop& loop, DriveSeatsOptions options);

  /// Runs the loop until the job has ended. Returns the exit code. Call once.
  int Run();

 private:
  Status Begin();
  Status OpenListener();
  void Look();
  RayPlacement Placement() const;
  int RunStatic();

  Loop& loop_;
  const std::string logs_;
  const RayParents parents_;
  DriveRun run_;
  std::vector<Watch> signals_;
  Lifelines lifelines_;
  HurryPipe hurry_;
  std::unique_ptr<SeatListener> listener_;
  std::unique_ptr<SeatTransport> transport_;
  const TimePoint wait_began_;
  TimePoint next_line_;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_DRIVE_SEATS_H_
