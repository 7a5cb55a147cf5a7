// SPDX-License-Identifier: Apache-2.0
#include "cmd/commands.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/text.h"
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

std::string DidYouMean(std::string_view word, std::span<const std::string_view> names) {
  constexpr size_t kMost = 3;
  word = word.substr(0, 80);
  std::vector<std::string> meant;
  for (const std::string_view name : names) {
    if (name.starts_with(word)) meant.emplace_back(name);
  }
  if (meant.empty() || meant.size() > kMost) meant = {Nearest(word, names)};
  return meant.front().empty() ? "" : fmt::format("did you mean {}?", fmt::join(meant, " or "));
}

}  // namespace hvdray
