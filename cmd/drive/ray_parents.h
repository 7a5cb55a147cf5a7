// The processes of Ray above the entrypoint of a job: what such a program hangs on.
#ifndef HVDRAY_CMD_DRIVE_RAY_PARENTS_H_
#define HVDRAY_CMD_DRIVE_RAY_PARENTS_H_

#include <sys/types.h>

#include <string>

#include "base/result.h"

namespace hvdray {

struct RayParents {
  pid_t supervisor = 0;  ///< Our parent: Ray's process for this job.
  pid_t raylet = 0;      ///< Its parent.
};

/// Before anything is forked. Errors: kRayFailed when the supervisor is gone already.
Result<RayParents> FindRayParents();

/// The session's folder of logs: where Ray has our stdout go, job-driver-<id>.log. Errors:
/// kRayFailed when that is no file.
Result<std::string> FindRayLogs();

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_RAY_PARENTS_H_
