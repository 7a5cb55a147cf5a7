// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/actions.h"
#include "cluster/ray/job_logs.h"
#include "cmd/on_cluster.h"
#include "launcher/job/exit_code.h"

namespace hvdray {

int LogsCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("logs", line, &request)) return *code;
  if (IsClusterFile(request.arguments.front())) return OnFile("logs", request, &ShowNodeLogs);
  const Result<int> code = LogsOfJob(request);
  return code.ok() ? *code : Fail("logs", code.status());
}

}  // namespace hvdray
