// SPDX-License-Identifier: Apache-2.0
// The section `run` of a cluster file for editors, made from the option table. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_RUN_SCHEMA_H_
#define HVDRAY_LAUNCHER_JOB_RUN_SCHEMA_H_

#include "base/json.h"

namespace hvdray {

/// A JSON Schema (draft-07) of what LayerOfFile() takes from a cluster file: `command` and every
/// key of every option that may stand there. It does not know all rules: only hvdray does.
Json RunSectionSchema();

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_RUN_SCHEMA_H_
