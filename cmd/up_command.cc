// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cluster/access/ray_passthrough.h"
#include "cluster/up/up_cluster.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/cluster_file.h"

namespace hvdray {

int UpCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("up", line, &request)) return *code;
  Result<ClusterSpec> file = ReadClusterFile("up", request.arguments.front(), request.said);
  if (!file.ok()) return Fail("up", file.status());
  if (const auto code = PassToRay("up", request, *file)) return *code;
  return UpCluster(request, std::move(*file), line.began);
}

}  // namespace hvdray
