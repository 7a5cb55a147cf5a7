// SPDX-License-Identifier: Apache-2.0
// `hvdray status --ray`: version, nodes with what is in use, and what waits for room. Only looks.
#include "cmd/commands.h"
#include "cmd/launch_plan.h"
#include "cmd/ray_words.h"
#include "launcher/job/exit_code.h"

namespace hvdray {

int StatusCommand(const CommandLine& line) {
  RayWords words;
  CLI::App app;
  DeclareStatus(app, words);
  if (const std::optional<int> code = ParseRayWords(app, "status", line.args)) return *code;
  Result<RayAccess> access = ResolveRayAccess("status", words);
  if (!access.ok()) return Fail("status", access.status());
  const Result<RaySnapshot> cluster = LookAtRay(std::move(access).value());
  if (!cluster.ok()) return Fail("status", cluster.status());
  return PrintOut("status", words.is_json ? RayStatusJson(*cluster) : RayStatusText(*cluster));
}

}  // namespace hvdray
