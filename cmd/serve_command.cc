// SPDX-License-Identifier: Apache-2.0
// `hvdray serve`: as `hvdray run`, but its client says when gangs start.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/error_code.h"
#include "base/log.h"
#include "base/user_home.h"
#include "cluster/ray/ray_serve.h"
#include "cluster/ray/slots_serve.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/job/plan_text.h"
#include "launcher/plan/host_sources.h"
#include "launcher/plan/job_files.h"
#include "launcher/plan/launch_plan.h"
#include "launcher/plan/log_options.h"
#include "launcher/plan/run_on_hosts.h"
#include "launcher/report/run_ending.h"

namespace hvdray {
namespace {

/// Call before anything else takes that number.
Result<UniqueFd> TakeDescriptor(std::string_view option, int fd) {
  if (fd <= STDERR_FILENO) {
    return Status(ErrorCode::kUsage,
                  fmt::format("{}: {} is one of hvdray's own standard streams", option, fd));
  }
  if (::fcntl(fd, F_GETFD) >= 0) return UniqueFd(fd);
  return Status(ErrorCode::kUsage, fmt::format("{}: descriptor {} is not open", option, fd));
}

Result<ServeOptions> OptionsOf(const ServeRequest& request, const LaunchPlan& plan) {
  ServeOptions options;
  if (request.control_fd >= 0) {
    HVDRAY_ASSIGN_OR_RETURN(options.socket, TakeDescriptor("--control-fd", request.control_fd));
  }
  options.path = request.control_path;
  options.linger = request.linger;
  options.grace = *plan.spec.grace;
  options.job_id = plan.job_id;
  options.build = plan.build;
  return options;
}

}  // namespace

int ServeCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line.began);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.home_of = HomesHere(plan.environment);
  files.load_cluster = &LoadClusterHosts;
  files.warn = [](const std::string& warning) {
    Tell(LogLevel::kWarning, "hvdray serve", warning);
  };
  MoreInputs inputs;
  NoteReads(files, inputs);
  Result<ServeRequest> request = ResolveServe(line.args, plan.environment, files);
  if (!request.ok()) return Fail("serve", request.status());
  SetUpLog(request->run.spec);
  for (const std::string& warning : request->run.warnings) files.warn(warning);
  if (request->run.wants_help) return PrintOut("serve", Help(CommandNamed("serve")));
  if (request->run.wants_version) return PrintOut("serve", VersionText());
  plan.spec = std::move(request->run.spec);
  if (plan.spec.print_config->has_value()) {
    return PrintOut("serve", PrintConfig(plan.spec, **plan.spec.print_config));
  }
  const Status distinct = CheckDistinctFiles(plan.spec, plan.environment, inputs);
  if (!distinct.ok()) return Fail("serve", distinct);
  Result<ServeOptions> options = OptionsOf(*request, plan);
  if (!options.ok()) return Fail("serve", options.status());
  if (request->broker_fd >= 0) {
    Result<UniqueFd> broker = TakeDescriptor("--ray-broker-fd", request->broker_fd);
    if (!broker.ok()) return Fail("serve", broker.status());
    return ServeOnSlots(std::move(plan), std::move(*options), std::move(*broker));
  }
  if (*plan.spec.ray.is_wanted) {
    const HeadLink link;
    return ServeOnRayJob(std::move(plan), std::move(*options), link);
  }
  TellAllocation(plan.spec, "hvdray serve");
  if (const Status status = MakePlan(plan, "hvdray serve", /*is_shown=*/false); !status.ok()) {
    return Fail("serve", status);
  }
  return RunOnHosts(CalledAs::kHvdray, std::move(plan), std::move(*options));
}

}  // namespace hvdray
