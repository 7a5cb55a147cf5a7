// SPDX-License-Identifier: Apache-2.0
// From a plan to a job on its hosts, and to its end.
#ifndef HVDRAY_LAUNCHER_PLAN_RUN_ON_HOSTS_H_
#define HVDRAY_LAUNCHER_PLAN_RUN_ON_HOSTS_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/environ.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/job/job_spec.h"
#include "launcher/report/run_ending.h"
#include "launcher/report/trace.h"

namespace hvdray {

/// Opens the way to the hosts of a plan that MakePlan() has made, and runs the job to its end.
/// `client`: of `hvdray serve`. Without one, --master-port must be free now, if rank 0 runs here.
/// Prints errors. Returns the exit code. Blocks.
int RunOnHosts(CalledAs name, LaunchPlan plan, std::optional<ServeOptions> client = std::nullopt);

/// A trace with its first phase. `hosts`: see Trace.
Trace BeginTrace(const LaunchPlan& plan, std::vector<std::string> hosts);

/// Runs an open job; prints and writes how it ended, after `on_ended`. Returns the exit code.
/// Blocks.
int RunToEnd(Launcher& launcher, const JobSpec& spec, CalledAs name, const Environment& environment,
             Trace& trace, const std::function<void()>& on_ended = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_RUN_ON_HOSTS_H_
