// SPDX-License-Identifier: Apache-2.0
// What --print-plan and --print-config print. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_PLAN_TEXT_H_
#define HVDRAY_LAUNCHER_JOB_PLAN_TEXT_H_

#include <span>
#include <string>

#include "launcher/job/job_spec.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// Which rank runs where and what hvdray adds to each worker's environment, as far as it is known
/// before anything starts; what only a start decides (ports, job id, interfaces of other hosts) is
/// listed by name. Ends with a newline. `ranks`: as AssignRanks() returns them.
std::string PlanToText(const JobSpec& spec, std::span<const RankInfo> ranks);
/// The same as one JSON object, schema "hvdray.plan/1".
std::string PlanToJson(const JobSpec& spec, std::span<const RankInfo> ranks);

/// Every setting with its value and origin. Text: aligned columns of name, value and origin. JSON:
/// one object {"schema": "hvdray.config/1", "settings": {name: {"value", "origin"}}, "environment":
/// {…}}. Durations are in seconds; settings without a value are null. The output ends up in bug
/// reports, so
/// "***" replaces -x values whose name suggests a secret (KEY, TOKEN, SECRET, PASSWORD,
/// CREDENTIAL), the headers for Ray, and the env_vars of its runtime environment.
std::string PrintConfig(const JobSpec& spec, PlanFormat format);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_PLAN_TEXT_H_
