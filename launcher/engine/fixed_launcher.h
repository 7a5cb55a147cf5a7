// SPDX-License-Identifier: Apache-2.0
// The launcher of jobs of fixed size, `hvdray serve`'s too: applies what GangDriver decides.
#ifndef HVDRAY_LAUNCHER_ENGINE_FIXED_LAUNCHER_H_
#define HVDRAY_LAUNCHER_ENGINE_FIXED_LAUNCHER_H_

#include <memory>

#include "base/loop.h"
#include "base/result.h"
#include "cluster/transport.h"
#include "launcher/engine/launcher.h"
#include "launcher/report/trace.h"

namespace hvdray {

struct ServeOptions;

/// Opens all files that the job writes, so that a wrong path stops it before anything is started.
/// Loop, transport and trace outlive the launcher. Errors: kFileUnwritable.
Result<std::unique_ptr<Launcher>> OpenFixed(Loop& loop, Transport& transport, Trace& trace,
                                            LaunchPlan plan);

/// The same for `hvdray serve`: holds the hosts of the plan and runs the gangs that its client
/// starts. plan.ranks: of the largest gang. Errors: also those of ServeSession::Open().
Result<std::unique_ptr<Launcher>> OpenServe(Loop& loop, Transport& transport, Trace& trace,
                                            LaunchPlan plan, ServeOptions options);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_FIXED_LAUNCHER_H_
