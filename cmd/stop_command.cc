// SPDX-License-Identifier: Apache-2.0
// `hvdray stop`: ends jobs on Ray, by their names or all of a cluster, and waits until they are
// over. Ray itself runs on.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_stop.h"
#include "cmd/on_cluster.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

Result<int> StopOnFile(ClusterAccess& access, const CommandRequest& request) {
  HeadLink link;
  // --timeout limits the wait for the jobs, not each answer.
  access.spec.timeout = {};
  HVDRAY_ASSIGN_OR_RETURN(RayAccess ray, FindRayOnHead(access, link));
  const std::vector<std::string>& words = request.arguments;
  HVDRAY_ASSIGN_OR_RETURN(const int code,
                          StopRayJobs(request, std::move(ray), {words.begin() + 1, words.end()}));
  if (code == 0 && words.size() == 1) {
    Tell(LogLevel::kInfo, "hvdray stop",
         fmt::format("the cluster runs on; hvdray down {} ends it", access.words));
  }
  return code;
}

Result<int> StopOnRay(CommandRequest& request) {
  if (request.arguments.empty() && SaidCluster(request) == nullptr) {
    return Status(ErrorCode::kUsage, "nothing to stop given",
                  "hvdray stop FILE.yaml, hvdray stop JOB, or hvdray stop --ray for all jobs");
  }
  JobSpec& spec = request.spec;
  spec.ray.is_wanted.Set(true, "hvdray stop");
  spec.timeout = {};
  HeadLink link;
  HVDRAY_ASSIGN_OR_RETURN(RayAccess ray, FindRay("stop", spec, link));
  return StopRayJobs(request, std::move(ray), request.arguments);
}

}  // namespace

int StopCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("stop", line, &request)) return *code;
  if (request.arguments.empty() || !IsClusterFile(request.arguments.front())) {
    const Result<int> code = StopOnRay(request);
    return code.ok() ? *code : Fail("stop", code.status());
  }
  return OnFile("stop", request, &StopOnFile);
}

}  // namespace hvdray
