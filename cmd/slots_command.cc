// SPDX-License-Identifier: Apache-2.0
// `hvdray slots --ray`: how many slots each node of a Ray cluster has room for now. Only looks.
#include "cluster/ray/dashboard_client.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_report.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/ray_job_file.h"

namespace hvdray {

int SlotsCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("slots", line, &request)) return *code;
  const RaySpec& ray = request.spec.ray;
  Status status = CheckSlotGpus(ray.gpus_per_slot.origin(), *ray.gpus_per_slot, *ray.uses_gpu);
  const RayAsk ask = ToRayAsk(request.spec);
  // What a job could not get, this command does not count.
  if (status.ok()) status = MakeRayRequest(ask).status();
  if (!status.ok()) return Fail("slots", status);
  HeadLink link;
  Result<RayAccess> access = FindRay("slots", request.spec, link);
  if (!access.ok()) return Fail("slots", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("slots", cluster.status());
  return PrintOut("slots", request.Has(OptionId::kJson) ? RaySlotsJson(*cluster, ask)
                                                        : RaySlotsText(*cluster, ask));
}

}  // namespace hvdray
