// SPDX-License-Identifier: Apache-2.0
// `--dry-run --print-plan`: who would run where, and what each worker would be told. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_PLAN_H_
#define HVDRAY_LAUNCHER_JOB_PLAN_H_

#include <span>
#include <string>

#include "launcher/job/job_spec.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// Both show what hvdray adds to a worker's environment and is known before anything starts; what
/// only a start can tell (ports, job id, interfaces of other hosts) is named as such. Ends with a
/// newline. `ranks` as AssignRanks() gives them.
std::string PlanToText(const JobSpec& spec, std::span<const RankInfo> ranks);
/// One object, schema "hvdray.plan/1".
std::string PlanToJson(const JobSpec& spec, std::span<const RankInfo> ranks);

// `hvdray run --print-config`: every setting, its value and where that comes from. Pure.

/// Text: aligned columns of name, value and origin. JSON: one object
/// {"schema": "hvdray.config/1", "settings": {name: {"value", "origin"}}, "environment": {…}};
/// durations are seconds, what is not set is null. Values of -x whose name tells of a secret
/// (KEY, TOKEN, SECRET, PASSWORD, CREDENTIAL) are shown as "***": the output ends up in issues.
std::string PrintConfig(const JobSpec& spec, PlanFormat format);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_PLAN_H_
