// What a JobSpec asks of a Ray cluster, in the words of cluster/ray. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_RAY_ASK_H_
#define HVDRAY_LAUNCHER_JOB_RAY_ASK_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cluster/ray/ray_request.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

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

#endif  // HVDRAY_LAUNCHER_JOB_RAY_ASK_H_
