// SPDX-License-Identifier: Apache-2.0
// The driver's side of a job on Ray: asks ray_driver.py for slots, waits for them, starts agents
// there and runs the launcher over them, as `hvdray run` does over other hosts. docs/ray.md, "What
// runs where".
#ifndef HVDRAY_CLUSTER_RAY_RAY_LAUNCH_H_
#define HVDRAY_CLUSTER_RAY_RAY_LAUNCH_H_

#include <span>
#include <string>
#include <string_view>

#include "launcher/engine/launcher.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {

/// "<directory>/hvdray_<job_id>.<suffix>": a file of the driver, in the session's log directory;
/// the client knows these names. Suffixes: stream, report.json, events.jsonl, trace.json,
/// junit.xml, record.
std::string RayLaunchFile(std::string_view directory, std::string_view job_id,
                          std::string_view suffix);

/// The job's spec as the driver uses it: files are written beside its stream file, there is no
/// stdin, and the default heartbeat timeout is shorter.
JobSpec SpecOnRay(const RayJobFile& job, std::string_view directory);

/// A plan without hosts and ranks; `spec`: from SpecOnRay().
LaunchPlan PlanOnRay(const RayJobFile& job, JobSpec spec);

/// hvdray-agent launch DIRECTORY: the driver of a job on Ray; runs inside the cluster as a child of
/// ray_driver.py. `words`: the arguments after "launch". Blocks until the job has ended. Returns
/// the job's exit code.
int RayLaunchMain(std::span<const std::string_view> words);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_LAUNCH_H_
