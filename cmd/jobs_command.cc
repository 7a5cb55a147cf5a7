// SPDX-License-Identifier: Apache-2.0
// `hvdray jobs --ray`: the jobs of hvdray on a Ray cluster and their states. Only looks.
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_report.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"

namespace hvdray {

int JobsCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("jobs", line, &request)) return *code;
  HeadLink link;
  Result<RayAccess> access = FindRay("jobs", request.spec, link);
  if (!access.ok()) return Fail("jobs", access.status());
  const RayAddress address = access->address;
  DashboardClient client(std::move(access).value());
  Result<std::vector<RayJob>> jobs = client.ListJobs();
  if (!jobs.ok()) return Fail("jobs", jobs.status());
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::vector<RayJob> ours = JobsOfOurs(std::move(jobs).value());
  return PrintOut(
      "jobs",
      request.Has(OptionId::kJson)
          ? RayJobsJson(address, ours)
          : RayJobsText(address, ours,
                        std::chrono::duration_cast<std::chrono::milliseconds>(now).count()));
}

}  // namespace hvdray
