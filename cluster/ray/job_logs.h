// SPDX-License-Identifier: Apache-2.0
// `hvdray logs JOB`: what a job on Ray has written, whoever submitted it.
#ifndef HVDRAY_CLUSTER_RAY_JOB_LOGS_H_
#define HVDRAY_CLUSTER_RAY_JOB_LOGS_H_

#include "base/result.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// Prints the log of the job that the only argument names; with --follow, until the job ends.
/// Returns an exit code: 0 however the job ended, 128 + signal. Errors: those of FindRay(), and
/// kUsage for an unknown job or one without a log at Ray.
Result<int> LogsOfJob(CommandRequest& request);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_JOB_LOGS_H_
