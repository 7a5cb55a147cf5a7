// SPDX-License-Identifier: Apache-2.0
#include "cmd/ray_words.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/log.h"
#include "base/notice.h"
#include "base/shown_text.h"
#include "base/text.h"
#include "cluster/ray/ray_facts.h"
#include "cmd/commands.h"
#include "cmd/launch_plan.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

/// "hvdray/0.1.0" of "hvdray 0.1.0 (abc1234)".
std::string UserAgent() {
  const std::string name = BuildName();
  const size_t begin = name.find(' ') + 1;
  return "hvdray/" + name.substr(begin, name.find(' ', begin) - begin);
}

/// Of words that nobody takes, the first.
Status Unexpected(const CLI::App& app, std::string_view command) {
  const std::vector<std::string> left = app.remaining();
  const std::string word = left.empty() ? "" : left.front();
  if (!word.starts_with("-")) {
    return {ErrorCode::kUsage, fmt::format("unexpected word '{}'", ShownText(word)),
            fmt::format("hvdray {} --help says what it takes", command)};
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string nearest =
      Nearest(word.substr(0, 80), std::vector<std::string_view>(names.begin(), names.end()));
  return {ErrorCode::kUsage, fmt::format("unknown option '{}'", ShownText(word)),
          nearest.empty() ? fmt::format("hvdray {} --help lists the options", command)
                          : fmt::format("did you mean {}?", nearest)};
}

}  // namespace

std::optional<int> ParseRayWords(CLI::App& app, std::string_view command,
                                 std::span<const std::string> args) {
  try {
    // CLI11 takes its words from the back.
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
    return std::nullopt;
  } catch (const CLI::CallForHelp&) {
    return PrintOut(command, app.help());
  } catch (const CLI::ExtrasError&) {
    return Fail(command, Unexpected(app, command));
  } catch (const CLI::Error& error) {
    return Fail(command, Status(ErrorCode::kUsage, error.what(),
                                fmt::format("hvdray {} --help lists the options", command)));
  }
}

Result<RayAccess> ResolveRayAccess(std::string_view command, RayWords& words) {
  const Environment environment = Environment::FromProcess();
  std::string given = words.address;
  std::string origin = words.address_origin;
  if (given.empty() && !words.cluster.empty()) {
    HVDRAY_ASSIGN_OR_RETURN(given, words.found.FindIn(words.cluster));
    origin = words.cluster;
  }
  if (given.empty()) {
    given = environment.GetOr("HVDRAY_RAY_ADDRESS", "");
    origin = "env HVDRAY_RAY_ADDRESS";
  }
  if (!words.is_ray && given.empty()) {
    return Status(ErrorCode::kUsage, "of which cluster?",
                  fmt::format("hvdray {} --ray, --ray-address URL, or --cluster FILE", command));
  }
  RayAccess access;
  HVDRAY_ASSIGN_OR_RETURN(access.address, ResolveRayAddress(given, origin, environment));
  HVDRAY_ASSIGN_OR_RETURN(access.headers, ResolveRayHeaders(words.headers, environment));
  HVDRAY_ASSIGN_OR_RETURN(access.token, FindRayToken(environment));
  access.trust = ParseRayVerify(words.verify);
  HVDRAY_ASSIGN_OR_RETURN(access.proxy, FindRayProxy(access.address, environment));
  access.user_agent = UserAgent();
  access.timeout = std::chrono::duration_cast<Duration>(Seconds(words.timeout_s));
  if (!access.address.note.empty()) {
    Tell(LogLevel::kInfo, fmt::format("hvdray {}", command), access.address.note);
  }
  return access;
}

}  // namespace hvdray
