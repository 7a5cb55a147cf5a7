// SPDX-License-Identifier: Apache-2.0
#include "launcher/plan/run_on_hosts.h"

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/loop.h"
#include "base/terminal.h"
#include "cluster/host_source.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/open_job.h"
#include "launcher/job/exit_code.h"
#include "launcher/plan/host_access.h"
#include "launcher/plan/host_sources.h"
#include "launcher/plan/launch_plan.h"

namespace hvdray {

int RunToEnd(Launcher& launcher, const JobSpec& spec, CalledAs name, const Environment& environment,
             Trace& trace, const std::function<void()>& on_ended) {
  JobReport report = launcher.Run();
  if (on_ended) on_ended();
  EndTerminalQuestions();  // No answer is needed any more.
  return EndRun(spec, name, environment, trace, std::move(report),
                [&launcher](std::span<const std::string> lines) { launcher.Print(lines); });
}

int RunOnHosts(CalledAs name, LaunchPlan plan, std::optional<ServeOptions> client) {
  const std::string_view command = client ? "serve" : "run";
  const JobSpec spec = plan.spec;
  const Environment environment = plan.environment;
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail(command, loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      spec.is_elastic()
          ? HostAccess::OpenElastic(**loop, spec, AgentPath(spec), HostSpread::kOneMachine)
          : HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote,
                             plan.spread);
  if (!access.ok()) return Fail(command, access.status());
  JobReach reach = {**access};
  Launcher* running = nullptr;
  ToldHosts told(**loop);
  std::unique_ptr<HostSource> found;
  if (spec.is_elastic()) {
    reach.hosts = access->get();
    if (*spec.are_hosts_told) {
      reach.source = reach.told = &told;
    } else {
      Result<std::unique_ptr<HostSource>> made =
          MakeHostSource(**loop, spec, [&running](std::string_view line) {
            running != nullptr ? running->Say(line) : SayDiscovery(line);
          });
      if (!made.ok()) return Fail(command, made.status());
      found = std::move(*made);
      reach.source = found.get();
    }
  }
  Trace trace =
      BeginTrace(plan, spec.is_elastic() ? std::vector<std::string>() : NamesOf(plan.hosts));
  Result<std::unique_ptr<Launcher>> launcher =
      OpenJob(**loop, reach, trace, std::move(plan), std::move(client));
  if (!launcher.ok()) return Fail(command, launcher.status());
  running = launcher->get();
  return RunToEnd(**launcher, spec, name, environment, trace);
}

}  // namespace hvdray
