// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/open_job.h"

#include <utility>

#include "launcher/engine/job_launcher.h"

namespace hvdray {

Result<std::unique_ptr<Launcher>> OpenJob(Loop& loop, const JobReach& reach, Trace& trace,
                                          LaunchPlan plan, std::optional<ServeOptions> client) {
  std::unique_ptr<JobLauncher> launcher =
      plan.spec.is_elastic() ? MakeElasticLauncher(loop, reach, trace, std::move(plan))
                             : MakeFixedLauncher(loop, reach, trace, std::move(plan));
  HVDRAY_RETURN_IF_ERROR(launcher->Open(std::move(client)));
  return std::unique_ptr<Launcher>(std::move(launcher));
}

}  // namespace hvdray
