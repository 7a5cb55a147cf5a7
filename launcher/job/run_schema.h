// SPDX-License-Identifier: Apache-2.0
// Job files, and the section `run` of cluster files, as JSON Schema, from the option table. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_RUN_SCHEMA_H_
#define HVDRAY_LAUNCHER_JOB_RUN_SCHEMA_H_

#include "base/json.h"
#include "launcher/job/option_layers.h"

namespace hvdray {

/// A JSON Schema (draft-07) of what LayerOfFile() takes from such a file: `command` and every
/// key of every option that may stand there. It does not know all rules: only hvdray does.
Json RunSectionSchema(FileKind kind = FileKind::kClusterRun);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RUN_SCHEMA_H_
