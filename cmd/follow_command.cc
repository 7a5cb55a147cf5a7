// SPDX-License-Identifier: Apache-2.0
// `hvdray follow ID`: a job on Ray that goes on without its client, followed again from its first
// line; or stopped.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/shown_text.h"
#include "cmd/commands.h"
#include "cmd/ray_words.h"
#include "launcher/job/exit_code.h"
#include "launcher/ray/ray_attach.h"

namespace hvdray {
namespace {

std::vector<RayWantedFile> FilesOf(const FollowOptions& words) {
  std::vector<RayWantedFile> files;
  for (const auto& [suffix, path] : {std::pair{"report.json", &words.report},
                                     {"events.jsonl", &words.events},
                                     {"junit.xml", &words.junit},
                                     {"trace.json", &words.trace},
                                     {"record", &words.record}}) {
    if (!path->empty()) files.push_back({suffix, *path});
  }
  return files;
}

Status CheckOurs(const RayAccess& access, const std::string& id) {
  DashboardClient client(access.Copy());
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<RayJob> job, client.GetJob(id));
  const std::string hint = "hvdray run --ray --detach prints the job's name";
  if (!job) {
    return {ErrorCode::kUsage,
            fmt::format("{}: there is no job {}", access.address.Url(), ShownText(id)), hint};
  }
  if (job->metadata.contains("hvdray_job_id")) return {};
  return {ErrorCode::kUsage,
          fmt::format("{}: job {} is not one of hvdray's", access.address.Url(), ShownText(id)),
          hint};
}

}  // namespace

int FollowCommand(const CommandLine& line) {
  RayWords ray;
  FollowOptions words;
  CLI::App app;
  DeclareFollow(app, ray, words);
  if (const std::optional<int> code = ParseRayWords(app, "follow", line.args)) return *code;
  ray.is_ray = true;
  Result<RayAccess> access = ResolveRayAccess("follow", ray);
  if (!access.ok()) return Fail("follow", access.status());
  if (const Status status = CheckOurs(*access, words.id); !status.ok()) {
    return Fail("follow", status);
  }
  const std::vector<RayWantedFile> files = FilesOf(words);
  Status writable = CheckWantedFiles(files);
  if (writable.ok()) writable = CheckOutputDirectory(words.output_directory, /*np=*/0);
  if (!writable.ok()) return Fail("follow", writable);
  const std::string how =
      ray.address.empty()
          ? fmt::format("hvdray follow {}{}", words.id,
                        ray.cluster.empty() ? "" : " --cluster " + ray.cluster)
          : fmt::format("hvdray follow {} --ray-address {}", words.id, access->address.Url());
  return AttachToRayJob({.command = "follow",
                         .access = std::move(access).value(),
                         .plan = {.id = words.id,
                                  .how_to_follow = how,
                                  .on_signal = FollowPlan::OnSignal::kLeavesJob,
                                  .is_quiet = words.is_quiet},
                         .likely_node = "",
                         .files = files,
                         .output_directory = words.output_directory,
                         .is_stopped_at_once = words.is_stop});
}

}  // namespace hvdray
