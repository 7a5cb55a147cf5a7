// SPDX-License-Identifier: Apache-2.0
// `hvdray get-head-ip FILE` and `hvdray get-worker-ips FILE`: addresses for scripts.
#include <string>
#include <vector>

#include "cmd/cluster_access.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"

namespace hvdray {

int GetHeadIpCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("get-head-ip", line, &request)) return *code;
  const Result<ClusterAccess> access = OpenClusterFile("get-head-ip", request);
  if (!access.ok()) return Fail("get-head-ip", access.status());
  const Result<std::string> head = ResolveHead(*access);
  if (!head.ok()) return FailOn(*access, head.status());
  return PrintOut("get-head-ip", *head + "\n");
}

int GetWorkerIpsCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("get-worker-ips", line, &request)) return *code;
  const Result<ClusterAccess> access = OpenClusterFile("get-worker-ips", request);
  if (!access.ok()) return Fail("get-worker-ips", access.status());
  const Result<std::vector<std::string>> workers = ResolveWorkers(*access);
  if (!workers.ok()) return FailOn(*access, workers.status());
  std::string text;
  for (const std::string& worker : *workers) text += worker + "\n";
  return PrintOut("get-worker-ips", text);
}

}  // namespace hvdray
