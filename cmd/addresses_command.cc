// SPDX-License-Identifier: Apache-2.0
// `hvdray get-head-ip FILE` and `hvdray get-worker-ips FILE`: addresses for scripts.
#include <string>
#include <string_view>

#include "cmd/on_cluster.h"
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
  return OnCluster(name, line, [&](ClusterAccess& access, const CommandRequest&) -> Result<int> {
    // Not FindNodes(): nobody logs in.
    HVDRAY_ASSIGN_OR_RETURN(access.nodes, FindClusterNodes(name, access.path, access.file));
    HVDRAY_ASSIGN_OR_RETURN(const std::string text, text_of(access));
    return PrintOut(name, text);
  });
}

}  // namespace

int GetHeadIpCommand(const CommandLine& line) { return PrintAs("get-head-ip", line, &HeadText); }

int GetWorkerIpsCommand(const CommandLine& line) {
  return PrintAs("get-worker-ips", line, &WorkersText);
}

}  // namespace hvdray
