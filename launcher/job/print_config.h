// `hvdray run --print-config`: every setting, its value and where that comes from. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_PRINT_CONFIG_H_
#define HVDRAY_LAUNCHER_JOB_PRINT_CONFIG_H_

#include <string>

#include "launcher/job/job_spec.h"

namespace hvdray {

/// Text: aligned columns of name, value and origin. JSON: one object
/// {"schema": "hvdray.config/1", "settings": {name: {"value", "origin"}}, "environment": {…}};
/// durations are seconds, what is not set is null. Values of -x whose name tells of a secret
/// (KEY, TOKEN, SECRET, PASSWORD, CREDENTIAL) are shown as "***": the output ends up in issues.
std::string PrintConfig(const JobSpec& spec, PlanFormat format);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_PRINT_CONFIG_H_
