// SPDX-License-Identifier: Apache-2.0
// Which variables of -x (and `env:`, HVDRAY_ENV, the `env` of Python) count although hvdray sets
// them, too, and which it refuses: none is dropped silently. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_USER_VARIABLES_H_
#define HVDRAY_LAUNCHER_JOB_USER_VARIABLES_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// Checks "NAME=VALUE" or "NAME". Errors: kUsage, beginning with `label`, for what only hvdray can
/// know: a worker's place, its meeting points, its channel, and GPUs that Ray has assigned.
/// torchrun's names are the user's with --no-torch-env.
Status CheckUserVariable(const JobSpec& spec, std::string_view label, std::string_view entry);

/// The same for a variable of Ray's runtime environment (`env_vars`), where only -x can set what
/// hvdray sets otherwise. Errors: kUsage.
Status CheckRuntimeVariable(const JobSpec& spec, std::string_view label, const std::string& name);

/// The names in spec.env that hvdray sets unless the user does: network interfaces,
/// PYTHONUNBUFFERED, and with --no-torch-env torchrun's. An inherited interface is not the user's
/// word: a job started by a worker would get the outer job's. Each once, sorted.
std::vector<std::string> KeptVariables(const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_USER_VARIABLES_H_
