// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/signals.h"
#include "cluster/ray/ray_access.h"
#include "cluster/ray/ray_submit.h"
#include "cluster/transport/agent_bootstrap.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/ray_runtime_env.h"
#include "launcher/plan/host_access.h"
#include "launcher/report/progress.h"

namespace hvdray {
namespace {

Result<PackagePlan> PlanFor(const JobSpec& spec) {
  const std::string directory = spec.ray.is_directory_remote() ? "" : *spec.ray.working_dir;
  Result<PackagePlan> plan = PlanPackage(AgentPath(spec), directory, *spec.ray.excludes);
  if (plan.ok()) return plan;
  return std::move(plan).status().WithContext("package for Ray");
}

Result<RayModules> ModulesFor(const JobSpec& spec) {
  HVDRAY_ASSIGN_OR_RETURN(const RayRuntimeEnv env, ParseRuntimeEnvText(*spec.ray.runtime_env));
  Result<RayModules> modules = PlanModules(env.py_modules);
  if (modules.ok()) return modules;
  return std::move(modules).status().WithContext(spec.ray.runtime_env.origin());
}

std::string PlanText(const RayOutlook& outlook, const PackagePlan& package, const JobSpec& spec) {
  const RayRequest request =
      spec.is_elastic() ? outlook.request : GroupByNode(outlook.request, outlook.cluster.nodes);
  const size_t bundles = request.bundles.size();
  std::string text =
      fmt::format("{}: Ray {}\n", outlook.cluster.address.Shown(), outlook.cluster.version.ray);
  text += fmt::format("{} workers in {} bundle{}, {}\n", *spec.np, bundles, bundles == 1 ? "" : "s",
                      request.strategy);
  std::string last;
  size_t count = 0;
  const auto flush = [&] {
    if (count > 0) text += fmt::format("  {} x {}\n", count, last);
  };
  for (const RayAmounts& bundle : request.bundles) {
    std::string shown = AmountsText(bundle);
    for (const auto& [name, amount] : bundle) {
      if (name.starts_with("node:")) shown += " on " + name.substr(5);
    }
    if (shown != last) {
      flush();
      last = shown;
      count = 0;
    }
    ++count;
  }
  flush();
  text += outlook.fit.missing.empty() ? "there is room for them now\n"
                                      : fmt::format("they would wait: {}\n", outlook.fit.missing);
  text += fmt::format("package {}: {} files of the working directory\n", package.name,
                      package.user_files);
  if (spec.ray.is_directory_remote()) {
    text += fmt::format("the working directory is {}, which Ray fetches\n", *spec.ray.working_dir);
  }
  if (!spec.ray.runtime_env->empty()) {
    text += fmt::format("runtime environment: {}\n",
                        ShownRuntimeEnv(*spec.ray.runtime_env).get<std::string>());
  }
  return text;
}

/// For a shell, with quotes only where it needs them.
std::string WordOf(const std::string& word) {
  const bool is_plain = !word.empty() && std::ranges::all_of(word, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("_./:@%+,=-").find(c) != std::string_view::npos;
  });
  return is_plain ? word : ShellQuoted(word);
}

/// " --report 'r.json'": the files asked for here, for the follower to write.
std::string FileWords(const JobSpec& spec) {
  std::string words;
  for (const auto& [name, path] : {std::pair("report", &*spec.report_file),
                                   {"events", &*spec.events_file},
                                   {"junit", &*spec.junit_file},
                                   {"trace", &*spec.trace_file},
                                   {"record", &*spec.record_file},
                                   {"output-filename", &*spec.output_filename}}) {
    if (!path->empty()) words += fmt::format(" --{} {}", name, ShellQuoted(*path));
  }
  return words;
}

}  // namespace

std::vector<RayWantedFile> WantedFiles(const JobSpec& spec) {
  std::vector<RayWantedFile> files;
  const auto add = [&files](const Setting<std::string>& file, const char* suffix) {
    if (!file->empty()) files.push_back({suffix, *file});
  };
  add(spec.report_file, "report.json");
  add(spec.events_file, "events.jsonl");
  add(spec.junit_file, "junit.xml");
  add(spec.trace_file, "trace.json");
  add(spec.record_file, "record");
  return files;
}

std::string JobCommand(std::string_view command, const JobSpec& spec, const std::string& url,
                       const std::string& id) {
  std::string words = fmt::format("hvdray {} {}", command, WordOf(id));
  // What the file leads to may be a tunnel.
  const bool is_of_file =
      !spec.cluster_file->empty() && spec.ray.address.origin() == *spec.cluster_file;
  const auto add = [&words](std::string_view option, const auto& setting,
                            const std::string& value) {
    if (setting.is_default()) return;
    words += fmt::format(" --{} {}", option, WordOf(value));
  };
  if (is_of_file) {
    words += " --cluster " + WordOf(*spec.cluster_file);
  } else if (!spec.ray.address->empty()) {
    words += " --ray-address " + WordOf(url);
  }
  // Of the environment, the next command finds Ray's options only.
  if (!spec.ray.verify->empty() && !spec.ray.verify.origin().starts_with("env ")) {
    add("ray-verify", spec.ray.verify, *spec.ray.verify);
  }
  const std::string& said = spec.is_peer_checked.origin();
  if (!*spec.is_peer_checked && (said.starts_with("flag ") || said.starts_with("env "))) {
    words += " --no-peer-check";
  }
  if (!is_of_file) return words;
  // What the file says is said by it again.
  const auto is_of_options = [&spec](const auto& setting) {
    return setting.origin() != *spec.cluster_file;
  };
  if (*spec.ssh_port != 0) add("ssh-port", spec.ssh_port, std::to_string(*spec.ssh_port));
  if (is_of_options(spec.ssh_identity_file)) {
    add("ssh-identity-file", spec.ssh_identity_file, *spec.ssh_identity_file);
  }
  add("ssh-config", spec.ssh_config_file, *spec.ssh_config_file);
  if (*spec.host_key_check != HostKeyCheck::kAcceptNew) {
    add("strict-host-key-checking", spec.host_key_check,
        *spec.host_key_check == HostKeyCheck::kYes ? "yes" : "no");
  }
  return words;
}

Status CheckFilesOfRayJob(const JobSpec& spec) {
  HVDRAY_RETURN_IF_ERROR(CheckWantedFiles(WantedFiles(spec)));
  return CheckOutputDirectory(*spec.output_filename, *spec.np);
}

Result<RayJobPlan> PlanRayJob(std::string_view command, const LaunchPlan& plan,
                              const HeadLink& link) {
  // The files of the working directory, before any question to the cluster.
  HVDRAY_ASSIGN_OR_RETURN(PackagePlan package, PlanFor(plan.spec));
  HVDRAY_ASSIGN_OR_RETURN(RayModules modules, ModulesFor(plan.spec));
  HVDRAY_ASSIGN_OR_RETURN(RayAccess access, ResolveRayAccess(command, plan.spec, link));
  HVDRAY_ASSIGN_OR_RETURN(RayOutlook outlook, LookAhead(access, plan.spec));
  return RayJobPlan{std::move(package), std::move(modules), std::move(access), std::move(outlook)};
}

Result<RayAttachOptions> SubmitRayJob(std::string_view command, const LaunchPlan& plan,
                                      const RayJobPlan& job, const std::string& control) {
  const JobSpec& spec = plan.spec;
  const bool is_colored =
      ChooseStyle(::isatty(STDERR_FILENO) != 0, *spec.color, *spec.is_quiet, plan.environment)
          .is_colored;
  HVDRAY_ASSIGN_OR_RETURN(
      const RaySubmission submission,
      MakeSubmission(plan, job.package, job.modules, job.outlook, is_colored, control));
  DashboardClient client(job.access.Copy());
  HVDRAY_RETURN_IF_ERROR(SendPackage(client, job.package));
  HVDRAY_RETURN_IF_ERROR(SendModules(client, job.modules));
  // From here on there may be a job, which Ctrl-C then stops.
  auto held_signals = std::make_shared<HeldSignals>(SignalSet({SIGINT, SIGTERM, SIGQUIT, SIGHUP}));
  HVDRAY_RETURN_IF_ERROR(Submit(client, submission));
  RayAttachOptions attach = {
      .command = std::string(command),
      .access = job.access.Copy(),
      .plan = {.id = plan.job_id,
               .how_to_follow =
                   JobCommand("follow", spec, job.outlook.cluster.address.Url(), plan.job_id) +
                   FileWords(spec),
               .how_to_read =
                   JobCommand("logs", spec, job.outlook.cluster.address.Url(), plan.job_id),
               .on_signal = FollowPlan::OnSignal::kStopsJob,
               .is_quiet = *spec.is_quiet},
      .likely_node = job.outlook.head_node,
      .files = WantedFiles(spec),
      .output_directory = *spec.output_filename,
      .tells_presence = *spec.ray.stops_with_client};
  attach.held_signals = std::move(held_signals);
  return attach;
}

int RunOnRay(const LaunchPlan& plan, const HeadLink& link) {
  const auto fail = [](const Status& status) { return Fail("run", status); };
  const JobSpec& spec = plan.spec;
  const bool is_shown = *spec.is_dry_run || spec.print_plan->has_value();
  if (spec.print_plan->has_value() && **spec.print_plan == PlanFormat::kJson) {
    return fail({ErrorCode::kNotSupported,
                 fmt::format("{} with --ray is not supported: Ray chooses the nodes",
                             spec.print_plan.origin())});
  }
  const Status files = is_shown ? Status() : CheckFilesOfRayJob(spec);
  if (!files.ok()) return fail(files);
  const Result<RayJobPlan> job = PlanRayJob("run", plan, link);
  if (!job.ok()) return fail(job.status());
  if (is_shown) return PrintOut("run", PlanText(job->outlook, job->package, spec));
  Result<RayAttachOptions> attach = SubmitRayJob("run", plan, *job);
  if (!attach.ok()) return fail(attach.status());
  if (*spec.ray.is_detached) {
    if (!*spec.is_quiet) Tell(LogLevel::kInfo, "hvdray run", attach->plan.how_to_follow);
    return PrintOut("run", plan.job_id + "\n");
  }
  return AttachToRayJob(std::move(attach).value());
}

}  // namespace hvdray
