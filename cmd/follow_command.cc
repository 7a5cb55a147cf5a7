// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_follow.h"
#include "cmd/commands.h"

namespace hvdray {

int FollowCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("follow", line, &request)) return *code;
  return FollowOnRay(request);
}

}  // namespace hvdray
