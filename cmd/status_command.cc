// SPDX-License-Identifier: Apache-2.0
// `hvdray status`: a cluster file's machines, or a Ray cluster's nodes, with what is in use, and
// what waits for room. Only looks.
#include <fmt/format.h>

#include "base/text.h"
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_report.h"
#include "cmd/cluster_look.h"
#include "cmd/commands.h"
#include "cmd/ray_access.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

int StatusOfFile(const CommandRequest& request) {
  const std::string& word = request.arguments.front();
  if (!IsClusterFile(word)) {
    return Fail("status", {ErrorCode::kUsage,
                           fmt::format("{} is not a cluster file (.yaml, .yml)", ShownText(word)),
                           "for the Ray of an address: hvdray status --ray-address URL"});
  }
  for (const OptionId id : {OptionId::kRay, OptionId::kRayAddress, OptionId::kCluster}) {
    if (const RawOption* other = request.said.Find(id); other != nullptr && request.Has(id)) {
      if (other->origin.starts_with("env ")) continue;
      return Fail("status", {ErrorCode::kUsage,
                             fmt::format("{} is not allowed with {}", other->label, word)});
    }
  }
  Result<ClusterAccess> access = OpenClusterFile("status", request);
  if (!access.ok()) return Fail("status", access.status());
  const Result<ClusterView> view = ClusterLook(std::move(access).value()).Look();
  if (!view.ok()) return Fail("status", view.status());
  std::string text;
  if (request.Has(OptionId::kJson)) {
    text = ClusterViewJson(*view, /*indent=*/2) + "\n";
  } else {
    for (const std::string& line : ClusterViewLines(*view)) text += line + "\n";
  }
  const int code = PrintOut("status", text);
  if (code != 0 || view->ray_status.ok()) return code;
  return Fail("status", view->ray_status);
}

}  // namespace

int StatusCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("status", line, &request)) return *code;
  if (!request.arguments.empty()) return StatusOfFile(request);
  HeadLink link;
  Result<RayAccess> access = FindRay("status", request.spec, link);
  if (!access.ok()) return Fail("status", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("status", cluster.status());
  return PrintOut("status",
                  request.Has(OptionId::kJson) ? RayStatusJson(*cluster) : RayStatusText(*cluster));
}

}  // namespace hvdray
