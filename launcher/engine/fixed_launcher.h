// SPDX-License-Identifier: Apache-2.0
// The launcher of jobs of fixed size: applies what GangDriver decides.
#ifndef HVDRAY_LAUNCHER_ENGINE_FIXED_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_FIXED_LAUNCHER_H_

#include <memory>

#include "launcher/engine/job_launcher.h"

namespace hvdray {

/// For OpenJob(). Loop, transport and trace outlive the launcher.
std::unique_ptr<JobLauncher> MakeFixedLauncher(Loop& loop, Transport& transport, Trace& trace,
                                               LaunchPlan plan);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_FIXED_LAUNCHER_H_
