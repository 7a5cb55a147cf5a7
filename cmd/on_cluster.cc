// SPDX-License-Identifier: Apache-2.0
#include "cmd/on_cluster.h"

#include <fmt/format.h>

#include "cluster/access/ray_passthrough.h"
#include "cluster/ray/ray_access.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

int RunOn(ClusterAccess& access, const CommandRequest& request, const ClusterFn& run) {
  const Result<int> code = run(access, request);
  return code.ok() ? *code : Fail(access.command, code.status());
}

}  // namespace

int OnCluster(std::string_view command, const CommandLine& line, const ClusterFn& run) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine(command, line, &request)) return *code;
  return OnCluster(command, request, run);
}

int OnCluster(std::string_view command, const CommandRequest& request, const ClusterFn& run) {
  Result<ClusterAccess> access = OpenClusterFile(command, request);
  if (!access.ok()) return Fail(command, access.status());
  if (const auto code = PassToRay(command, request, access->file)) return *code;
  return RunOn(*access, request, run);
}

int OnFile(std::string_view command, const CommandRequest& request, const ClusterFn& run) {
  if (const RawOption* other = SaidCluster(request)) {
    return Fail(command, {ErrorCode::kUsage, fmt::format("{} is not allowed with {}", other->label,
                                                         request.arguments.front())});
  }
  Result<ClusterAccess> access = OpenClusterFile(command, request);
  if (!access.ok()) return Fail(command, access.status());
  return RunOn(*access, request, run);
}

}  // namespace hvdray
