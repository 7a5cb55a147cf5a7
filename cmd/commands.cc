// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.h"

#include <utility>

#include "base/environ.h"
#include "base/user_home.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"

namespace hvdray {

std::optional<int> ResolveCommandLine(std::string_view command, const CommandLine& line,
                                      CommandRequest* request) {
  const Environment environment = Environment::FromProcess();
  Result<CommandRequest> resolved =
      ResolveRequest(command, line.args, environment, HomesHere(environment));
  if (!resolved.ok()) return Fail(command, resolved.status());
  *request = std::move(resolved).value();
  if (request->wants_help) return PrintOut(command, Help(CommandNamed(command)));
  return std::nullopt;
}

}  // namespace hvdray
