// `hvdray run`: words to a plan, the plan to a launcher, its report to files and an exit code.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/environ.h"
#include "base/loop.h"
#include "base/terminal.h"
#include "cmd/cluster_hosts.h"
#include "cmd/commands.h"
#include "cmd/exit_code.h"
#include "cmd/host_access.h"
#include "cmd/launch_plan.h"
#include "cmd/machine_checks.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/launcher.h"
#include "launcher/output/progress.h"
#include "launcher/placement/plan.h"
#include "launcher/report/closing_lines.h"
#include "launcher/report/junit.h"
#include "launcher/spec/help.h"
#include "launcher/spec/options_resolver.h"
#include "launcher/spec/print_config.h"

namespace hvdray {
namespace {

void PrintErr(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

// The folders of --sync are looked through before any host is dialled.
Status PlanCopies(LaunchPlan& plan) {
  const bool is_any_remote =
      std::any_of(plan.is_remote.begin(), plan.is_remote.end(), [](bool remote) { return remote; });
  HVDRAY_ASSIGN_OR_RETURN(plan.synced,
                          PlanSync(*plan.spec.sync, plan.environment,
                                   is_any_remote ? SyncScope::kList : SyncScope::kCheckOnly));
  for (const SyncedFolder& synced : plan.synced) {
    for (const std::string& warning : synced.listing.warnings) {
      PrintErr(fmt::format("hvdray run: warning: --sync: {}", warning));
    }
  }
  const std::string& folder =
      plan.spec.working_folder->empty() ? plan.current_folder : *plan.spec.working_folder;
  plan.worker_place = PlaceIn(plan.synced, ResolvedFolder(folder));
  return {};
}

// A report that can't be written makes a good job a bad one, but never hides how a bad one ended:
// then it is one line more.
std::vector<std::string> WriteReports(const JobSpec& spec, Trace& trace, JobReport& report) {
  std::vector<std::string> lines;
  const auto note = [&report, &lines](const Status& status) {
    if (status.ok()) return;
    if (report.verdict.exit_code != 0) {
      lines.push_back(fmt::format("hvdray run: {}", status.ToString()));
      return;
    }
    report.verdict.exit_code = 125;
    report.verdict.origin = ExitOrigin::kHvdray;
    report.verdict.error = status;
  };
  if (!spec.trace_file->empty()) {
    note(trace.WriteTo(*spec.trace_file, std::chrono::steady_clock::now()));
  }
  if (!spec.junit_file->empty()) note(WriteJunit(*spec.junit_file, report));
  if (!spec.report_file->empty()) note(WriteJobReport(*spec.report_file, report));
  return lines;
}

int Launch(LaunchPlan plan) {
  const JobSpec spec = plan.spec;
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) names.push_back(host.host);
  Trace trace(plan.began, names, !spec.trace_file->empty());
  trace.Begin("resolve", plan.began);
  trace.End("resolve", std::chrono::steady_clock::now());
  const Environment environment = plan.environment;

  Result<std::unique_ptr<Loop>> loop = Loop::Create();
  if (!loop.ok()) return Fail("run", loop.status());
  Result<std::unique_ptr<HostAccess>> access =
      HostAccess::Open(**loop, spec, AgentPath(spec), plan.hosts, plan.is_remote, plan.spread);
  if (!access.ok()) return Fail("run", access.status());
  Result<std::unique_ptr<Launcher>> launcher =
      Launcher::Open(**loop, **access, trace, std::move(plan));
  if (!launcher.ok()) return Fail("run", launcher.status());
  JobReport report = (*launcher)->Run();
  EndTerminalQuestions();  // hosts that are on their way are not wanted any more

  const TerminalStyle style =
      ChooseStyle(::isatty(STDERR_FILENO) != 0, *spec.color, *spec.is_quiet, environment);
  const ClosingStyle closing{spec.command->front(), *spec.working_folder, style.is_colored,
                             *spec.is_quiet, *spec.is_verbose};
  // The files first: a reader of stderr that has stopped reading must not cost them.
  std::vector<std::string> lines = WriteReports(spec, trace, report);
  for (std::string& line : ClosingLines(report.verdict, report.last_lines, closing)) {
    lines.push_back(std::move(line));
  }
  (*launcher)->Print(lines);
  return report.verdict.exit_code;
}

int ShowPlan(const LaunchPlan& plan) {
  const PlanFormat format = plan.spec.print_plan->value_or(PlanFormat::kText);
  return PrintOut("run", format == PlanFormat::kJson ? PlanToJson(plan.spec, plan.ranks)
                                                     : PlanToText(plan.spec, plan.ranks));
}

}  // namespace

int RunCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line);
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadClusterHosts;
  Result<RunRequest> request = ResolveRun(line.args, plan.environment, files);
  if (!request.ok()) return Fail("run", request.status());
  for (const std::string& warning : request->warnings) {
    PrintErr(fmt::format("hvdray run: warning: {}", warning));
  }
  if (request->wants_help) return PrintOut("run", RunHelp());
  if (request->wants_version) return PrintOut("run", BuildName() + "\n");
  if (request->wants_check_build) return PrintOut("run", BuildTable());
  plan.spec = std::move(request->spec);
  if (plan.spec.print_config->has_value()) {
    return PrintOut("run", PrintConfig(plan.spec, **plan.spec.print_config));
  }
  SetUpLog(plan.spec);
  Status status = CheckSupported(plan.spec);
  if (status.ok()) status = CheckDistinctFiles(plan.spec);
  if (status.ok()) status = Place(plan);
  if (status.ok()) status = CheckFolderHere(plan);
  if (status.ok()) status = CheckExec(plan);
  if (status.ok()) status = PlanCopies(plan);
  if (!status.ok()) return Fail("run", status);
  if (plan.spec.print_plan->has_value() || *plan.spec.is_dry_run) return ShowPlan(plan);
  status = CheckMasterPortHere(plan);
  if (!status.ok()) return Fail("run", status);
  return Launch(std::move(plan));
}

}  // namespace hvdray
