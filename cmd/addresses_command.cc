// SPDX-License-Identifier: Apache-2.0
// `hvdray get-head-ip FILE` and `hvdray get-worker-ips FILE`: addresses for scripts.
#include <string>
#include <string_view>
#include <utility>

#include "cmd/cluster_access.h"
#include "cmd/commands.h"
#include "cmd/ray_passthrough.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/cluster_nodes.h"

namespace hvdray {

namespace {

Result<std::string> HeadText(const ClusterAccess& access) {
  HVDRAY_ASSIGN_OR_RETURN(const ClusterNode head, ResolveHead(access));
  return head.address + "\n";
}

Result<std::string> WorkersText(const ClusterAccess& access) {
  HVDRAY_RETURN_IF_ERROR(ResolveHead(access).status());
  std::string text;
  for (const ClusterNode& worker : access.nodes.workers) text += worker.address + "\n";
  return text;
}

using TextFn = Result<std::string>(const ClusterAccess&);

int PrintAs(std::string_view name, const CommandLine& line, TextFn* text_of) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine(name, line, &request)) return *code;
  Result<ClusterAccess> access = OpenClusterFile(name, request);
  if (!access.ok()) return Fail(name, access.status());
  if (const auto code = PassToRay(name, request, access->file)) return *code;
  // Not FindNodes(): nobody logs in.
  Result<ClusterNodes> nodes = FindClusterNodes(name, access->path, access->file);
  if (!nodes.ok()) return FailOn(*access, nodes.status());
  access->nodes = std::move(nodes).value();
  const Result<std::string> text = text_of(*access);
  return text.ok() ? PrintOut(name, *text) : FailOn(*access, text.status());
}

}  // namespace

int GetHeadIpCommand(const CommandLine& line) { return PrintAs("get-head-ip", line, &HeadText); }

int GetWorkerIpsCommand(const CommandLine& line) {
  return PrintAs("get-worker-ips", line, &WorkersText);
}

}  // namespace hvdray
