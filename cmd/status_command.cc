// SPDX-License-Identifier: Apache-2.0
// `hvdray status`: a cluster file's machines, or a Ray cluster's nodes, with what is in use, and
// what waits for room; or one job on Ray. Only looks.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "cluster/access/cluster_look.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_report.h"
#include "cmd/on_cluster.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

Result<int> StatusOfFile(ClusterAccess& access, const CommandRequest& request) {
  HVDRAY_ASSIGN_OR_RETURN(const ClusterView view, ClusterLook(access).Look());
  std::string text;
  if (request.Has(OptionId::kJson)) {
    text = ClusterViewJson(view, /*indent=*/2) + "\n";
  } else {
    for (const std::string& line : ClusterViewLines(view)) text += line + "\n";
  }
  const int code = PrintOut("status", text);
  if (code != 0 || view.ray_status.ok()) return code;
  return view.ray_status;
}

Result<std::string> StatusOfJob(CommandRequest& request) {
  request.spec.ray.is_wanted.Set(true, "hvdray status");
  HeadLink link;
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, FindRay("status", request.spec, link));
  const RayAddress address = access.address;
  DashboardClient client(std::move(access));
  HVDRAY_ASSIGN_OR_RETURN(const RayJob job, JobCalled(client, request.arguments.front()));
  std::vector<RayNode> nodes;
  if (!job.driver_node_id.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(nodes, client.Nodes());
  }
  if (request.Has(OptionId::kJson)) return RayJobJson(address, job, nodes);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return RayJobText(address, job, nodes,
                    std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

}  // namespace

int StatusCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("status", line, &request)) return *code;
  if (!request.arguments.empty()) {
    if (IsClusterFile(request.arguments.front())) return OnFile("status", request, &StatusOfFile);
    const Result<std::string> text = StatusOfJob(request);
    return text.ok() ? PrintOut("status", *text) : Fail("status", text.status());
  }
  HeadLink link;
  Result<RayAccess> access = FindRay("status", request.spec, link);
  if (!access.ok()) return Fail("status", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("status", cluster.status());
  return PrintOut("status",
                  request.Has(OptionId::kJson) ? RayStatusJson(*cluster) : RayStatusText(*cluster));
}

}  // namespace hvdray
