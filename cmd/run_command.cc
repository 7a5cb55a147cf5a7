// `hvdray run`: words to a plan, the plan to a launcher, its report to files and an exit code.
#include <algorithm>
#include <chrono>

#include "base/loop.h"
#include "base/notice.h"
#include "base/terminal.h"
#include "cmd/cluster_hosts.h"
#include "cmd/commands.h"
#include "cmd/elastic_run.h"
#include "cmd/host_access.h"
#include "cmd/host_sources.h"
#include "cmd/launch_plan.h"
#include "cmd/machine_checks.h"
#include "cmd/ray_of_cluster.h"
#include "cmd/ray_run.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/job/options_resolver.h"
#include "launcher/job/plan.h"
#include "launcher/job/print_config.h"
#include "launcher/report/run_ending.h"

namespace hvdray {
namespace {

void Warn(const std::string& warning) { Tell(LogLevel::kWarning, "hvdray run", warning); }

// The folders of --sync are looked through before any host is dialled.
Status PlanCopies(LaunchPlan& plan) {
  const bool is_any_remote =
      plan.spec.may_learn_hosts() ||
      std::any_of(plan.is_remote.begin(), plan.is_remote.end(), [](bool remote) { return remote; });
  HVDRAY_ASSIGN_OR_RETURN(plan.synced,
                          PlanSync(*plan.spec.sync, plan.environment,
                                   is_any_remote ? SyncScope::kList : SyncScope::kCheckOnly));
  for (const SyncedFolder& synced : plan.synced) {
    for (const std::string& warning : synced.listing.warnings) {
      Warn("--sync: " + warning);
    }
  }
  const std::string& folder =
      plan.spec.working_folder->empty() ? plan.current_folder : *plan.spec.working_folder;
  plan.worker_place = PlaceIn(plan.synced, ResolvedFolder(folder));
  return {};
}

int Launch(LaunchPlan plan, Wording wording) {
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

  return EndRun(spec, wording, environment, trace, std::move(report),
                [&launcher](std::span<const std::string> lines) { (*launcher)->Print(lines); });
}

/// A plan that is only shown is made of the hosts of the moment.
Status MakePlan(LaunchPlan& plan, bool is_shown) {
  HVDRAY_RETURN_IF_ERROR(CheckSupported(plan.spec));
  HVDRAY_RETURN_IF_ERROR(CheckDistinctFiles(plan.spec));
  if (is_shown) HVDRAY_RETURN_IF_ERROR(LearnHosts(plan.spec, &SayDiscovery));
  if (is_shown || !plan.spec.is_elastic()) {
    HVDRAY_RETURN_IF_ERROR(Place(plan));
  } else {
    PlaceElastic(plan);
  }
  HVDRAY_RETURN_IF_ERROR(CheckFolderHere(plan));
  HVDRAY_RETURN_IF_ERROR(CheckExec(plan));
  return PlanCopies(plan);
}

int ShowPlan(const LaunchPlan& plan) {
  const PlanFormat format = plan.spec.print_plan->value_or(PlanFormat::kText);
  return PrintOut("run", format == PlanFormat::kJson ? PlanToJson(plan.spec, plan.ranks)
                                                     : PlanToText(plan.spec, plan.ranks));
}

}  // namespace

int RunCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line);
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.load_cluster = &LoadClusterHosts;
  RayOfCluster ray;  // a tunnel to it lasts as long as the command
  files.find_ray = [&ray](const ClusterHosts& cluster, const JobSpec& spec) {
    return ray.Find(cluster, spec);
  };
  files.warn = &Warn;
  Result<RunRequest> request =
      ResolveRun(line.args, plan.environment, files,
                 line.is_horovodrun ? CalledAs::kHorovodrun : CalledAs::kHvdray);
  if (!request.ok()) return Fail("run", request.status());
  SetUpLog(request->spec);
  for (const std::string& warning : request->warnings) {
    Warn(warning);
  }
  if (request->wants_help) return PrintOut("run", RunHelp());
  if (request->wants_version) {
    return PrintOut("run", line.is_horovodrun ? HorovodrunVersion() : BuildName() + "\n");
  }
  if (request->wants_check_build) return PrintOut("run", BuildTable());
  plan.spec = std::move(request->spec);
  if (plan.spec.print_config->has_value()) {
    return PrintOut("run", PrintConfig(plan.spec, **plan.spec.print_config));
  }
  if (*plan.spec.ray.is_wanted) return RunOnRay(plan);
  const bool is_shown = plan.spec.print_plan->has_value() || *plan.spec.is_dry_run;
  if (const Status status = MakePlan(plan, is_shown); !status.ok()) return Fail("run", status);
  if (is_shown) return ShowPlan(plan);
  const Wording wording = line.is_horovodrun ? Wording::kHorovods : Wording::kOwn;
  if (plan.spec.is_elastic()) return LaunchElastic(std::move(plan), wording);
  if (const Status status = CheckMasterPortHere(plan); !status.ok()) return Fail("run", status);
  return Launch(std::move(plan), wording);
}

}  // namespace hvdray
