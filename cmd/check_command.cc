// `hvdray check`: words to a plan as for run, the plan to agents without workers, what they say to
// findings, text or JSON and an exit code.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/loop.h"
#include "base/notice.h"
#include "base/terminal.h"
#include "cmd/cluster_hosts.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/launch_plan.h"
#include "launcher/engine/host_check.h"
#include "launcher/report/check_findings.h"
#include "launcher/report/check_text.h"
#include "launcher/spec/help.h"
#include "launcher/spec/options_resolver.h"

namespace hvdray {
namespace {

/// What asks for a text and no check.
std::optional<std::string> TextWanted(const RunRequest& request) {
  if (request.wants_help) return CheckHelp();
  if (request.wants_version) return BuildName() + "\n";
  if (request.wants_check_build) return BuildTable();
  return std::nullopt;
}

/// With too few slots the hosts are worth a look all the same: as many workers as there is room.
Status PlanCheck(CheckRequest& request, LaunchPlan& plan) {
  HVDRAY_RETURN_IF_ERROR(CheckSupported(plan.spec));
  HVDRAY_RETURN_IF_ERROR(LearnHosts(plan.spec, &SayDiscovery));
  if (plan.spec.may_learn_hosts()) {
    // A job would wait for more; that there are too few of them now is what is asked here.
    request.slots = AssignRanks(*plan.spec.hosts, *plan.spec.np, *plan.spec.max_np).status();
  }
  if (!request.slots.ok()) {
    int room = 0;
    for (const HostSlots& host : *plan.spec.hosts) room += host.slots;
    if (room == 0) return request.slots;
    plan.spec.np.Set(std::min(room, *plan.spec.np), plan.spec.np.origin());
  }
  HVDRAY_RETURN_IF_ERROR(Place(plan));
  return plan.spec.command->empty() ? Status() : CheckExec(plan);
}

int CheckHosts(const CheckRequest& request, LaunchPlan plan) {
  const JobSpec spec = plan.spec;
  std::vector<std::string> unused;
  for (const HostSlots& host : *spec.hosts) {
    const bool is_used = std::any_of(plan.hosts.begin(), plan.hosts.end(),
                                     [&](const auto& used) { return used.host == host.host; });
    if (!is_used) unused.push_back(host.host);
  }
  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("check", loop.status());
  HostCheck::Outcome outcome;
  {
    Result<std::unique_ptr<HostAccess>> access =
        HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
    if (!access.ok()) return Fail("check", access.status());
    outcome = HostCheck(**loop, **access, std::move(plan)).Run();
    EndTerminalQuestions();  // after Ctrl-C a host may still ask
  }
  if (outcome.signo != 0) return 128 + outcome.signo;
  outcome.facts.np = *request.run.spec.np;
  outcome.facts.slots = request.slots;
  outcome.facts.unused_hosts = std::move(unused);
  const std::vector<Finding> findings = FindFindings(outcome.facts);
  return PrintOut(
      "check",
      request.is_json ? CheckJson(outcome.facts, findings) : CheckText(outcome.facts, findings),
      ExitCodeOf(findings));
}

}  // namespace

int CheckCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadClusterHosts;
  Result<CheckRequest> request = ResolveCheck(line.args, plan.environment, files);
  if (!request.ok()) return Fail("check", request.status());
  SetUpLog(request->run.spec);
  for (const std::string& warning : request->run.warnings) {
    Tell(LogLevel::kWarning, "hvdray check", warning);
  }
  if (const auto text = TextWanted(request->run)) return PrintOut("check", *text);
  plan.spec = request->run.spec;
  if (const Status status = PlanCheck(*request, plan); !status.ok()) return Fail("check", status);
  return CheckHosts(*request, std::move(plan));
}

}  // namespace hvdray
