// SPDX-License-Identifier: Apache-2.0
// What a job on Ray carries and no listing of the Jobs API may show: hvdray_job/job.json in its
// second package, which the client writes and `hvdray-agent launch` reads; and what a job asks of
// Ray. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_RAY_JOB_FILE_H_
#define HVDRAY_LAUNCHER_JOB_RAY_JOB_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environ.h"
#include "base/result.h"
#include "base/types.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/ray_request.h"

namespace hvdray {

/// The file's name in the package.
inline constexpr const char* kRayJobFileName = "job.json";
/// Beside it, if the job is for a client of `hvdray serve`: all that the client says, in the form
/// of docs/serve.md.
inline constexpr const char* kRayControlFileName = "control";
/// The largest file that ParseRayJobFile() accepts.
inline constexpr size_t kMaxRayJobFileBytes = size_t{16} << 20;

/// The contents of the file.
struct RayJobFile {
  std::string job_id;
  std::string build;  ///< Of the client.
  std::string key;    ///< For the links between agents and driver: 64 hex digits. Never logged.
  /// The cluster may gain nodes, so the job waits for slots that no node could hold now.
  bool can_grow = true;
  JobSpec spec;
  Environment environment;  ///< See EnvironmentForRay().
};

/// The file's bytes, without --ray-headers.
std::string RayJobFileText(const RayJobFile& job);

/// Ignores unknown keys. Errors: kProtocolError for invalid JSON, a missing job_id, a key that is
/// not 64 hex digits; kProtocolMismatch for a spec of another build that SpecFromJson() refuses.
Result<RayJobFile> ParseRayJobFile(ByteView text);

/// The part of the client's environment that goes with a job on Ray: HOROVOD_*, NCCL_*, and the
/// variables that -x names without a value. The rest comes from each worker's node.
Environment EnvironmentForRay(const JobSpec& spec, const Environment& client);

/// What `spec`, resolved with --ray, asks of a Ray cluster. MakeRayRequest() checks whether Ray can
/// provide it.
RayAsk ToRayAsk(const JobSpec& spec);

/// Checks --gpus-per-slot: a whole number of at least 1 that needs --use-gpu, or 0 without it.
/// Errors: kUsage, beginning with `label`, which names the option.
Status CheckSlotGpus(std::string_view label, const std::optional<double>& gpus, bool uses_gpu);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_JOB_FILE_H_
