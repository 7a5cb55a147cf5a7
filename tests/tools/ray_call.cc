// SPDX-License-Identifier: Apache-2.0
// One call of the dashboard client for integration tests, which have no other way to each of them:
// ray_call URL VERB [WORD...]. Prints what came; an error goes to stderr and is exit code 1.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/fd.h"
#include "cluster/ray/dashboard_client.h"

namespace hvdray {
namespace {

Status Print(const std::string& text) { return WriteAll(1, text + "\n"); }

Status PrintFlag(const Result<bool>& flag) {
  return flag.ok() ? Print(*flag ? "true" : "false") : flag.status();
}

std::string JobLine(const RayJob& job) {
  return fmt::format("{} {} exit={} node={} error={}", job.submission_id, job.status_text,
                     job.driver_exit_code.value_or(-999), job.driver_node_id, job.error_type);
}

/// `words`: NODE FILE OFFSET BYTES; ends after so many bytes.
Status Follow(RayAccess access, const std::vector<std::string>& words) {
  uint64_t left = std::strtoull(words.at(3).c_str(), nullptr, 10);
  RayLogFollower follower(std::move(access),
                          {.node_id = words[0],
                           .file_name = words[1],
                           .offset = std::strtoull(words[2].c_str(), nullptr, 10)});
  RayLogFollower::Handlers handlers;
  handlers.take = [&left](ByteView piece) {
    if (!WriteAll(1, piece).ok()) return false;
    left -= std::min<uint64_t>(left, piece.size());
    return left > 0;
  };
  handlers.on_pause = [](const Status& why) { std::fputs((why.message() + "\n").c_str(), stderr); };
  return follower.Follow(handlers);
}

Status Call(RayAccess access, const std::string& verb, const std::vector<std::string>& words) {
  if (verb == "follow") return Follow(std::move(access), words);
  DashboardClient client(std::move(access));
  if (verb == "has") return PrintFlag(client.HasPackage(words.at(0)));
  if (verb == "put") {
    HVDRAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(words.at(1), size_t{256} << 20));
    return client.PutPackage(words[0], bytes);
  }
  if (verb == "stop") return PrintFlag(client.StopJob(words.at(0)));
  if (verb == "read") {
    return client.ReadLog(words.at(0), words.at(1),
                          [](ByteView piece) { return WriteAll(1, piece).ok(); });
  }
  if (verb == "submit") {
    RayJobRequest request{.entrypoint = words.at(0), .submission_id = words.at(1)};
    if (words.size() > 2) request.working_dir = words[2];
    request.env_vars = {{"RAY_JOB_STOP_WAIT_TIME_S", "15"}};
    request.metadata = {{"hvdray", "test"}};
    HVDRAY_ASSIGN_OR_RETURN(const std::string id, client.Submit(request));
    return Print(id);
  }
  if (verb == "job") {
    HVDRAY_ASSIGN_OR_RETURN(const std::optional<RayJob> job, client.GetJob(words.at(0)));
    return Print(job ? JobLine(*job) : "none");
  }
  if (verb == "jobs") {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<RayJob> jobs, client.ListJobs());
    for (const RayJob& job : jobs) HVDRAY_RETURN_IF_ERROR(Print(JobLine(job)));
    return {};
  }
  if (verb == "groups") {
    HVDRAY_ASSIGN_OR_RETURN(const std::vector<RayPlacementGroup> groups, client.PlacementGroups());
    for (const RayPlacementGroup& group : groups) {
      HVDRAY_RETURN_IF_ERROR(Print(fmt::format("{} {} {} bundles={}", group.name, group.state,
                                               group.scheduling_state, group.bundles.size())));
    }
    return {};
  }
  return {ErrorCode::kUsage, "ray_call: no verb " + verb};
}

Status Run(const std::vector<std::string>& args) {
  const Environment environment = Environment::FromProcess();
  RayAccess access;
  HVDRAY_ASSIGN_OR_RETURN(access.address, ResolveRayAddress(args.at(0), "URL", environment));
  HVDRAY_ASSIGN_OR_RETURN(access.token, FindRayToken(environment));
  access.is_clear_text_allowed = true;
  return Call(std::move(access), args.at(1), {args.begin() + 2, args.end()});
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  ::signal(SIGPIPE, SIG_IGN);
  const hvdray::Status status = hvdray::Run({argv + 1, argv + argc});
  if (!status.ok()) std::fputs((status.ToString() + "\n").c_str(), stderr);
  return status.ok() ? 0 : 1;
}
