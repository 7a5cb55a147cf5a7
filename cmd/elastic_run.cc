// A source of hosts, the way to them, the driver's policy; then the elastic launcher's part.
#include "cmd/elastic_run.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/loop.h"
#include "base/terminal.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/launch_plan.h"
#include "launcher/engine/elastic_launcher.h"
#include "launcher/engine/elastic_options.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

int64_t EpochSeconds(std::chrono::system_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

ElasticHosts HostsOf(HostAccess& access) {
  return {.add = [&access](const HostSlots& host) { access.AddHost(host); },
          .is_remote = [&access](const std::string& host) { return access.IsRemote(host); },
          .is_elsewhere = [&access](const std::string& host) { return access.IsElsewhere(host); }};
}

}  // namespace

int LaunchElastic(LaunchPlan plan, Wording wording) {
  const JobSpec spec = plan.spec;
  const ElasticPolicy policy = ElasticPolicyOf(spec, EpochSeconds(plan.began_wall));
  if (const Status status = CheckElasticPolicy(policy); !status.ok()) return Fail("run", status);
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("run", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::OpenElastic(**loop, spec, AgentPath(spec), HostSpread::kOneMachine);
  if (!access.ok()) return Fail("run", access.status());
  ElasticLauncher* running = nullptr;
  Result<std::unique_ptr<HostSource>> source =
      MakeHostSource(**loop, spec, [&running](std::string_view line) {
        running != nullptr ? running->Say(line) : SayDiscovery(line);
      });
  if (!source.ok()) return Fail("run", source.status());
  const Environment environment = plan.environment;
  Trace trace(plan.began, {}, !spec.trace_file->empty());
  trace.Begin("resolve", plan.began);
  trace.End("resolve", std::chrono::steady_clock::now());
  Result<std::unique_ptr<ElasticLauncher>> launcher = ElasticLauncher::Open(
      **loop, **access, **source, HostsOf(**access), trace, std::move(plan), policy);
  if (!launcher.ok()) return Fail("run", launcher.status());
  running = launcher->get();
  JobReport report = running->Run();
  EndTerminalQuestions();  // hosts that are on their way are not wanted any more
  return EndRun(spec, wording, environment, trace, std::move(report),
                [&launcher](std::span<const std::string> lines) { (*launcher)->Print(lines); });
}

}  // namespace hvdray
