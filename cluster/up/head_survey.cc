// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/head_survey.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/text.h"
#include "cluster/transport/foreground_process.h"
#include "cluster/transport/remote_command.h"
#include "launcher/job/ray_address.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"

namespace hvdray {

bool IsThisMachineCalled(const HostSlots& host, const JobSpec& spec) {
  const std::vector<bool> are = AreThisMachine({host.host, host.dial_name()}, LookupOf(spec));
  return are[0] || are[1];
}

bool IsHeadHere(const HostSlots& head, const JobSpec& spec) {
  return head.address.host_key_alias.empty() && IsThisMachineCalled(head, spec);
}

Result<NodeSurvey> SurveyHead(const HostSlots& head, const std::string& name, const JobSpec& spec) {
  const ScriptPlace place = {.cluster = name, .node = head.host};
  const std::vector<std::string> words = ScriptCommand(place, "survey");
  const Duration limit = SshConnectTimeout(spec);
  Result<CapturedRun> said =
      IsHeadHere(head, spec)
          ? RunForOutput(words, /*input=*/"", limit)
          : RunOverSshForOutput(OpensshOptionsFor(spec, head), head.dial_name(),
                                "exec " + QuotedWords(words), /*input=*/"", limit);
  if (!said.ok()) return std::move(said).status().WithContext("look at the head");
  if (said->exit_code == 0) return ParseSurvey(said->output);
  return Status(
      ErrorCode::kHostUnreachable,
      "look at the head: " +
          (said->error_lines.empty() ? "no answer" : ShownText(said->error_lines.back())));
}

Result<RayDashboard> FindDashboard(const HostSlots& head, const std::string& name,
                                   const JobSpec& spec) {
  const Result<NodeSurvey> survey = SurveyHead(head, name, spec);
  if (!survey.ok()) Log(LogLevel::kInfo, "ray", "{}", survey.status().message());
  if (survey.ok() && survey->has_no_dashboard) {
    return Status(ErrorCode::kNotSupported,
                  "the Ray on " + head.dial_name() + " was started without a dashboard",
                  "hvdray looks at Ray through it: leave out --include-dashboard=False");
  }
  if (survey.ok() && survey->dashboard) return *survey->dashboard;
  if (survey.ok() && survey->others.contains(kRayDashboardPort)) {
    return Status(ErrorCode::kRayUnreachable,
                  fmt::format("no Ray of cluster {} runs on {}: at port {} is that of cluster {}",
                              name, head.dial_name(), kRayDashboardPort,
                              ShownText(survey->others.at(kRayDashboardPort))),
                  "hvdray up starts it");
  }
  return RayDashboard{"127.0.0.1", kRayDashboardPort};
}

}  // namespace hvdray
