// `hvdray follow ID`: a job on Ray that goes on without its client, followed again from its first
// line; or stopped.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/shown_text.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/ray_attach.h"
#include "cmd/ray_words.h"

namespace hvdray {
namespace {

struct FollowWords {
  RayWords ray;
  std::string id;
  bool is_stop = false;
  bool is_quiet = false;
  std::string report, events, junit, trace, record, output_folder;
};

void Declare(CLI::App& app, FollowWords& words) {
  DeclareRayWords(app, words.ray, RayWordSet::kAccess);
  app.add_option("ID", words.id, "the job, as hvdray run --detach has printed it")->required();
  app.add_flag("--stop", words.is_stop, "stop the job in good order, and follow it to its end");
  app.add_flag("-q,--quiet", words.is_quiet, "nothing from hvdray itself but errors");
  const auto file = [&app](const char* name, std::string& path, const char* what) {
    app.add_option(name, path, what)->type_name("FILE");
  };
  file("--report", words.report, "write the job's report there when it has ended");
  file("--events", words.events, "write its events there, if it was submitted with --events");
  file("--junit", words.junit, "the same for --junit");
  file("--trace", words.trace, "the same for --trace");
  file("--record", words.record, "the same for --record");
  app.add_option("--output-filename", words.output_folder,
                 "also write each worker's output to FOLDER/rank.N/stdout and stderr")
      ->type_name("FOLDER");
  app.footer(
      "Ctrl-C leaves the job alone; with --stop, it ends it at once.\n"
      "  hvdray follow hvd-20261122-101500-0a1b2c3d --ray-address http://10.0.0.10:8265");
}

std::vector<RayWantedFile> FilesOf(const FollowWords& words) {
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
  FollowWords words;
  CLI::App app("Follows a job on Ray that was submitted before: its output, its exit code.",
               "hvdray follow");
  Declare(app, words);
  if (const std::optional<int> code = ParseRayWords(app, "follow", line.args)) return *code;
  words.ray.is_ray = true;
  Result<RayAccess> access = ResolveRayAccess("follow", words.ray);
  if (!access.ok()) return Fail("follow", access.status());
  if (const Status status = CheckOurs(*access, words.id); !status.ok()) {
    return Fail("follow", status);
  }
  const std::vector<RayWantedFile> files = FilesOf(words);
  Status writable = CheckWantedFiles(files);
  if (writable.ok()) writable = CheckOutputFolder(words.output_folder, /*np=*/0);
  if (!writable.ok()) return Fail("follow", writable);
  const std::string how =
      words.ray.address.empty()
          ? fmt::format("hvdray follow {}{}", words.id,
                        words.ray.cluster.empty() ? "" : " --cluster " + words.ray.cluster)
          : fmt::format("hvdray follow {} --ray-address {}", words.id, access->address.Url());
  return AttachToRayJob({.command = "follow",
                         .access = std::move(access).value(),
                         .plan = {.id = words.id,
                                  .how_to_follow = how,
                                  .on_signal = FollowPlan::OnSignal::kLeavesJob,
                                  .is_quiet = words.is_quiet},
                         .likely_node = "",
                         .files = files,
                         .output_folder = words.output_folder,
                         .is_stopped_at_once = words.is_stop});
}

}  // namespace hvdray
