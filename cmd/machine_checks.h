// SPDX-License-Identifier: Apache-2.0
// What this machine has to say against a plan, before anything is started.
#ifndef HVDRAY_CMD_MACHINE_CHECKS_H_
#define HVDRAY_CMD_MACHINE_CHECKS_H_

#include "base/status.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// --cwd, when a worker runs here. Errors: kUsage.
Status CheckDirectoryHere(const LaunchPlan& plan);

/// Files that would be written over each other. Errors: kUsage.
Status CheckDistinctFiles(const JobSpec& spec);

/// --master-port, when rank 0 runs here: is somebody else listening there? A look at this moment,
/// no more. Errors: kAddressInUse.
Status CheckMasterPortHere(const LaunchPlan& plan);

}  // namespace hvdray

#endif  // HVDRAY_CMD_MACHINE_CHECKS_H_
