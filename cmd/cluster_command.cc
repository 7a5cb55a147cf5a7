// SPDX-License-Identifier: Apache-2.0
// `hvdray cluster config` and `migrate`: a cluster file, printed in another form. Only reads.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <string_view>

#include "base/distinct_files.h"
#include "base/log.h"
#include "base/text.h"
#include "base/yaml_writer.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/cluster_file.h"

namespace hvdray {
namespace {

constexpr std::array<std::string_view, 2> kActions = {"config", "migrate"};

Status CheckAction(const CommandRequest& request) {
  const std::string& action = request.arguments.front();
  if (std::ranges::find(kActions, action) == kActions.end()) {
    const std::string meant = DidYouMean(action, kActions);
    return {ErrorCode::kUsage, fmt::format("unknown word '{}'", ShownText(action)),
            meant.empty() ? "hvdray cluster config FILE, or hvdray cluster migrate FILE" : meant};
  }
  if (request.arguments.size() < 2) {
    return {ErrorCode::kUsage, "no cluster file given",
            fmt::format("hvdray cluster {} FILE", action)};
  }
  if (action == "migrate" && request.Has(OptionId::kResolved)) {
    return {ErrorCode::kUsage, "flag --resolved does not apply to hvdray cluster migrate",
            "use it with hvdray cluster config"};
  }
  return {};
}

/// What the file means to hvdray, but not to Ray.
void WarnOfRay(const ClusterSpec& spec) {
  if (!spec.is_local() || !spec.auth.ssh_user.empty()) return;
  Tell(LogLevel::kWarning, "hvdray cluster",
       "ray needs auth.ssh_user; hvdray takes ssh's own user without it");
}

}  // namespace

int ClusterCommand(const CommandLine& line) {
  CommandRequest request;
  if (const auto code = ResolveCommandLine("cluster", line, &request)) return *code;
  if (const Status status = CheckAction(request); !status.ok()) return Fail("cluster", status);
  const std::string& path = request.arguments[1];
  // "hvdray cluster migrate FILE >> FILE"
  const NamedFile read = LookAtFile("the cluster file", path);
  const NamedFile written = LookAtFile("stdout", "/dev/stdout");
  const Status files = CheckDistinct(std::span(&written, 1), std::span(&read, 1));
  if (!files.ok()) return Fail("cluster", files);
  const Result<ClusterSpec> spec = ReadClusterFile("cluster", path, request.said);
  if (!spec.ok()) return Fail("cluster", spec.status());
  const bool is_migration = request.arguments.front() == "migrate";
  const bool is_for_ray = request.Has(OptionId::kResolved);
  if (is_for_ray) WarnOfRay(*spec);
  YamlNode document = is_migration ? *spec->modern
                      : is_for_ray ? RayCluster(*spec->resolved)
                                   : HvdrayCluster(*spec->resolved);
  if (request.Has(OptionId::kJson)) {
    return PrintOut("cluster", DumpJson(YamlJson(document), 2) + "\n");
  }
  std::string text = YamlText(document);
  if (is_migration) {
    text = fmt::format("# {} in the modern form. Its comments are not kept.\n", ShownText(path)) +
           text;
  }
  return PrintOut("cluster", text);
}

}  // namespace hvdray
