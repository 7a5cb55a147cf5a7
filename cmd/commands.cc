// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.h"

#include <utility>

#include "base/environ.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"

namespace hvdray {

std::optional<int> ResolveCommandLine(std::string_view command, const CommandLine& line,
                                      CommandRequest* request) {
  Result<CommandRequest> resolved = ResolveRequest(command, line.args, Environment::FromProcess());
  if (!resolved.ok()) return Fail(command, resolved.status());
  *request = std::move(resolved).value();
  if (request->wants_help) return PrintOut(command, Help(CommandNamed(command)));
  return std::nullopt;
}

}  // namespace hvdray
