// SPDX-License-Identifier: Apache-2.0
// From the user's options to the level and form of this process's own log (base/log.h). Called
// before threads start: early with the words alone, for errors in the options themselves, and again
// with the resolved spec, which wins.
#ifndef HVDRAY_LAUNCHER_PLAN_LOG_OPTIONS_H_
#define HVDRAY_LAUNCHER_PLAN_LOG_OPTIONS_H_

#include <span>
#include <string>

#include "base/environ.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// --verbose, --log-level, --log-json.
void SetUpLog(const JobSpec& spec);
/// Before the options are read, so that errors in them are JSON, too, if --log-json is among the
/// words.
void SetUpLogEarly(std::span<const std::string> args, const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_LOG_OPTIONS_H_
