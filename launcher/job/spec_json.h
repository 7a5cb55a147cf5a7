// SPDX-License-Identifier: Apache-2.0
// A resolved JobSpec as JSON and back, so that the driver of a job on Ray works with the very
// settings that the client has resolved. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_SPEC_JSON_H_
#define HVDRAY_LAUNCHER_JOB_SPEC_JSON_H_

#include <string>

#include "base/json.h"
#include "base/result.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// {"schema": "hvdray.spec/1", "settings": {...}, "origins": {...}}: fields that differ from those
/// of JobSpec{}, under the names of spec_fields.h, and who has set them. Durations are whole
/// nanoseconds, choices words, texts that are not UTF-8 {"base64": "..."}.
Json SpecToJson(const JobSpec& spec);

/// Keys that it does not know are passed over, fields that are missing keep their default. Errors:
/// kProtocolError for another schema, or naming the field whose value is of another kind.
Result<JobSpec> SpecFromJson(const Json& json);

/// Text of any bytes: a JSON string, or {"base64": "..."} where it is not UTF-8.
Json BytesToJson(const std::string& bytes);
/// The inverse. Errors: kProtocolError.
Result<std::string> BytesFromJson(const Json& json);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_SPEC_JSON_H_
