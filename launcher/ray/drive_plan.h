// From what a job on Ray has brought along and what Ray has given it to a plan that can be
// launched. Pure.
#ifndef HVDRAY_LAUNCHER_RAY_DRIVE_PLAN_H_
#define HVDRAY_LAUNCHER_RAY_DRIVE_PLAN_H_

#include <string>
#include <string_view>

#include "cluster/ray/ray_placement.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {

/// "<folder>/hvdray_<job_id>.<suffix>": the driver's files, in the session's folder of logs, whose
/// names the client knows. Suffixes: stream, report.json, events.jsonl, trace.json, junit.xml,
/// record.
std::string DriveFile(std::string_view folder, std::string_view job_id, std::string_view suffix);

/// The job's spec as its driver goes by it: what it writes, it writes beside its stream file; there
/// is no stdin; a host that is lost is known sooner than by default.
JobSpec DriveSpec(const RayJobFile& job, std::string_view folder);

/// Without hosts and ranks; `spec`: of DriveSpec().
LaunchPlan DrivePlan(const RayJobFile& job, JobSpec spec);

/// Adds hosts and ranks. Errors: those of AssignRanks().
Status PlaceStatic(const RayPlacement& placement, LaunchPlan* plan);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_RAY_DRIVE_PLAN_H_
