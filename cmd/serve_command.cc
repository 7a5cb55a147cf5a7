// SPDX-License-Identifier: Apache-2.0
// `hvdray serve`: as `hvdray run`, but its client says when gangs start.
#include <fcntl.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "cmd/commands.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/launch_plan.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/serve_session.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/report/run_ending.h"

namespace hvdray {
namespace {

Result<ServeOptions> OptionsOf(const ServeRequest& request, const LaunchPlan& plan) {
  ServeOptions options;
  if (request.control_fd >= 0) {
    // Before anything else takes that number.
    if (::fcntl(request.control_fd, F_GETFD) < 0) {
      return Status(ErrorCode::kUsage,
                    fmt::format("--control-fd: descriptor {} is not open", request.control_fd));
    }
    options.socket.Reset(request.control_fd);
  }
  options.path = request.control_path;
  options.linger = request.linger;
  options.grace = *plan.spec.grace;
  options.job_id = plan.job_id;
  options.build = plan.build;
  return options;
}

int Serve(LaunchPlan plan, ServeOptions options) {
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  Trace trace = BeginTrace(plan, NamesOf(plan.hosts));
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("serve", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
  if (!access.ok()) return Fail("serve", access.status());
  Result<std::unique_ptr<Launcher>> launcher =
      OpenServe(**loop, **access, trace, std::move(plan), std::move(options));
  if (!launcher.ok()) return Fail("serve", launcher.status());
  JobReport report = (*launcher)->Run();
  EndTerminalQuestions();
  return EndRun(spec, CalledAs::kHvdray, environment, trace, std::move(report),
                [&](std::span<const std::string> lines) { (*launcher)->Print(lines); });
}

}  // namespace

int ServeCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadClusterHosts;
  files.warn = [](const std::string& warning) {
    Tell(LogLevel::kWarning, "hvdray serve", warning);
  };
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
  Result<ServeOptions> options = OptionsOf(*request, plan);
  if (!options.ok()) return Fail("serve", options.status());
  if (const Status status = MakePlan(plan, "hvdray serve", /*is_shown=*/false); !status.ok()) {
    return Fail("serve", status);
  }
  return Serve(std::move(plan), std::move(*options));
}

}  // namespace hvdray
