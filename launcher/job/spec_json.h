// SPDX-License-Identifier: Apache-2.0
// Encodes a resolved JobSpec as JSON and decodes it, so that the driver of a job on Ray works with
// the settings that the client resolved. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_SPEC_JSON_H_
#define HVDRAY_LAUNCHER_JOB_SPEC_JSON_H_

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// {"schema": "hvdray.spec/2", "settings": {...}, "origins": {...}}: the fields that differ from
/// JobSpec{}, under the keys of the option table, and where each value comes from. Durations are in
/// nanoseconds, choices are words, and texts that are not UTF-8 are {"base64": "..."}.
std::string SpecToJson(const JobSpec& spec);

/// Unknown keys are ignored, missing fields keep their defaults. Errors: kProtocolError for another
/// schema, or naming the field whose value is invalid.
Result<JobSpec> SpecFromJson(const Json& json);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SPEC_JSON_H_
