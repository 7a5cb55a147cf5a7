// Where the processes of a job on Ray find what belongs to it: its second package, unpacked.
#ifndef HVDRAY_CMD_DRIVE_JOB_FOLDER_H_
#define HVDRAY_CMD_DRIVE_JOB_FOLDER_H_

#include <string>

#include "base/result.h"
#include "launcher/spec/ray_job_file.h"

namespace hvdray {

/// The job file in `folder`. Errors: kFileUnreadable, and those of ParseRayJobFile(), with its
/// path.
Result<RayJobFile> LoadJob(const std::string& folder);

/// The job file in the first folder of `python_path` (PYTHONPATH, as Ray sets it for the entrypoint
/// of a job) that has the package; nobody but its owner can read the file afterwards. Errors:
/// kFileUnreadable, kSystem, those of LoadJob().
Result<RayJobFile> LoadJobOf(const std::string& python_path);

}  // namespace hvdray

#endif  // HVDRAY_CMD_DRIVE_JOB_FOLDER_H_
