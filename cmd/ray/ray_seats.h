// The client's part of --ray-mode jobs: which node takes how many slots, and the Ray job of each.
#ifndef HVDRAY_CMD_RAY_RAY_SEATS_H_
#define HVDRAY_CMD_RAY_RAY_SEATS_H_

#include <string>

#include "cluster/ray/dashboard_client.h"
#include "cmd/ray/ray_submit.h"
#include "cmd/ray/seat_requests.h"
#include "launcher/spec/ray_job_file.h"

namespace hvdray {

/// Looks at the cluster until it has room; blocks, at most --placement-group-timeout, and says on
/// stderr what is missing. outlook: of LookAhead(); is that of the last look afterwards. Errors:
/// kNoCapacity, kNotSupported (several nodes at one address, and a Ray before 2.49), kRayFailed (no
/// head), those of DashboardClient.
Result<RayJobSeats> WaitForSeats(const RayAccess& access, const JobSpec& spec, RayOutlook* outlook);

/// Behind Submit(): sends the seats' jobs, if there are any, several at a time. Blocks. Errors: the
/// first of any.
Status SubmitSeats(const RayAccess& access, const RaySubmission& submission);

/// Asks Ray to stop the jobs of all seats that have not ended. Of one that is pending Ray says that
/// it does, and mostly does nothing: its agent ends by itself. Blocks.
void StopSeats(DashboardClient& client, const std::string& id, const RayJobShape& shape);

/// Tells the driver of job `id` that its stop is to be at once. Errors: those of DashboardClient.
Status HurrySeats(DashboardClient& client, const RayJob& job);

}  // namespace hvdray

#endif  // HVDRAY_CMD_RAY_RAY_SEATS_H_
