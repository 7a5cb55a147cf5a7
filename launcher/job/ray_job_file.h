// SPDX-License-Identifier: Apache-2.0
// What a job on Ray takes with it that no listing of the Jobs API may show: hvdray_job/job.json of
// its second package, written by the client, read by `hvdray-agent drive`. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_RAY_JOB_FILE_H_
#define HVDRAY_LAUNCHER_JOB_RAY_JOB_FILE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/types.h"
#include "cluster/ray/ray_request.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Its name in the package's directory.
inline constexpr const char* kRayJobFileName = "job.json";
/// Largest file that is read.
inline constexpr size_t kMaxRayJobFileBytes = size_t{16} << 20;

struct RayJobFile {
  std::string job_id;
  std::string build;  ///< Of the client.
  std::string key;    ///< Of the links between agents and driver: 64 hex digits. Never logged.
  /// Nodes may be added to the cluster, so that a job waits for slots that no node could hold now.
  bool can_grow = true;
  JobSpec spec;
  Environment environment;  ///< See EnvironmentForRay().
};

/// The file's bytes. Without --ray-headers.
std::string RayJobFileText(const RayJobFile& job);

/// Unknown keys are passed over. Errors: kProtocolError: no JSON, no job_id, a key that is not 64
/// hex digits; kProtocolMismatch: a spec that SpecFromJson() refuses, of another build.
Result<RayJobFile> ParseRayJobFile(ByteView text);

/// What of the client's environment goes with a job on Ray, whose workers have their node's own
/// otherwise: HOROVOD_*, NCCL_*, and the variables that -x names without a value.
Environment EnvironmentForRay(const JobSpec& spec, const Environment& client);

// What a JobSpec asks of a Ray cluster, in the words of cluster/ray. Pure.

/// `spec`: resolved, with --ray. MakeRayRequest() says what of it can't be.
RayAsk RayAskOf(const JobSpec& spec);

// What a slot is made of, as `hvdray run` and `hvdray slots` take it. Errors: kUsage, beginning
// with `label`, which names the option.

/// "disk=0.5", "memory=1GiB": what Ray counts in bytes may have a unit (KB, MB, GB, TB, KiB, MiB,
/// GiB, TiB). CPU and GPU have options of their own.
Result<std::pair<std::string, double>> ParseSlotResource(std::string_view label,
                                                         std::string_view text);

/// --gpus-per-slot is a whole number from 1, and needs --use-gpu; 0 needs nothing.
Status CheckSlotGpus(std::string_view label, const std::optional<double>& gpus, bool uses_gpu);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RAY_JOB_FILE_H_
