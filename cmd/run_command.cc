// SPDX-License-Identifier: Apache-2.0
// `hvdray run`: from words to a plan, which goes to its hosts or to Ray.
#include <string>
#include <utility>

#include "base/log.h"
#include "base/user_home.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_run.h"
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

void Warn(const std::string& warning) { Tell(LogLevel::kWarning, "hvdray run", warning); }

int ShowPlan(const LaunchPlan& plan) {
  const PlanFormat format = plan.spec.print_plan->value_or(PlanFormat::kText);
  return PrintOut("run", format == PlanFormat::kJson ? PlanToJson(plan.spec, plan.ranks)
                                                     : PlanToText(plan.spec, plan.ranks));
}

}  // namespace

int RunCommand(const CommandLine& line) {
  LaunchPlan plan = BeginPlan(line.began);
  if (line.sync_rules != nullptr) plan.sync_rules = *line.sync_rules;
  SetUpLogEarly(line.args, plan.environment);
  ResolverFiles files = RealResolverFiles();
  files.home_of = HomesHere(plan.environment);
  files.load_cluster = &LoadClusterHosts;
  HeadLink link;  // lasts as long as the command
  files.find_ray = [&link](const ClusterHosts& cluster, const JobSpec& spec) {
    return FindRayOfCluster(cluster, spec, link);
  };
  files.warn = &Warn;
  MoreInputs inputs;
  NoteReads(files, inputs);
  Result<RunRequest> request =
      ResolveRun(line.args, plan.environment, files,
                 line.is_horovodrun ? CalledAs::kHorovodrun : CalledAs::kHvdray);
  if (!request.ok()) {
    const bool is_path = request.status().code() == ErrorCode::kFileUnreadable;
    const Status gone = is_path ? CheckCurrentDirectory(plan) : Status();
    return Fail("run", gone.ok() ? request.status() : gone);
  }
  SetUpLog(request->spec);
  for (const std::string& warning : request->warnings) {
    if (!*request->spec.is_quiet) Warn(warning);
  }
  if (request->wants_help) return PrintOut("run", Help(CommandNamed("run")));
  if (request->wants_version) {
    return PrintOut("run", line.is_horovodrun ? HorovodrunVersion() : VersionText());
  }
  if (request->wants_check_build) return PrintOut("run", BuildTable());
  plan.spec = std::move(request->spec);
  if (plan.spec.print_config->has_value()) {
    return PrintOut("run", PrintConfig(plan.spec, **plan.spec.print_config));
  }
  if (plan.spec.working_directory->empty()) {
    if (const Status gone = CheckCurrentDirectory(plan); !gone.ok()) return Fail("run", gone);
  }
  const Status distinct = CheckDistinctFiles(plan.spec, plan.environment, inputs);
  if (!distinct.ok()) return Fail("run", distinct);
  if (*plan.spec.ray.is_wanted) return RunOnRay(plan, link);
  TellAllocation(plan.spec, "hvdray run");
  const bool is_shown = plan.spec.print_plan->has_value() || *plan.spec.is_dry_run;
  if (const Status status = MakePlan(plan, "hvdray run", is_shown); !status.ok())
    return Fail("run", status);
  if (is_shown) return ShowPlan(plan);
  return RunOnHosts(line.is_horovodrun ? CalledAs::kHorovodrun : CalledAs::kHvdray,
                    std::move(plan));
}

}  // namespace hvdray
