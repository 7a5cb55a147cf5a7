// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "cluster/access/ray_passthrough.h"
#include "cluster/up/down_cluster.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/cluster_file.h"

namespace hvdray {

int DownCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("down", line, &request)) return *code;
  Result<ClusterSpec> file = ReadClusterFile("down", request.arguments.front(), request.said);
  if (!file.ok()) return Fail("down", file.status());
  if (const auto code = PassToRay("down", request, *file)) return *code;
  return DownCluster(request, std::move(*file), line.began);
}

}  // namespace hvdray
