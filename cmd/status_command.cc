// SPDX-License-Identifier: Apache-2.0
// `hvdray status --ray`: version, nodes with what is in use, and what waits for room. Only looks.
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_report.h"
#include "cmd/commands.h"
#include "cmd/ray_access.h"
#include "launcher/job/exit_code.h"

namespace hvdray {

int StatusCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = TakeWords("status", line, &request)) return *code;
  HeadLink link;
  Result<RayAccess> access = FindRay("status", request.spec, link);
  if (!access.ok()) return Fail("status", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("status", cluster.status());
  return PrintOut("status",
                  request.Has(OptionId::kJson) ? RayStatusJson(*cluster) : RayStatusText(*cluster));
}

}  // namespace hvdray
