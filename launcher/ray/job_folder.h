// Where the processes of a job on Ray find what belongs to it: its second package, unpacked.
#ifndef HVDRAY_LAUNCHER_RAY_JOB_FOLDER_H_
#define HVDRAY_LAUNCHER_RAY_JOB_FOLDER_H_

#include <string>

#include "base/result.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {

/// The job file in `folder`. Errors: kFileUnreadable, and those of ParseRayJobFile(), with its
/// path.
Result<RayJobFile> LoadJob(const std::string& folder);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_JOB_FOLDER_H_
