// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_submit.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "base/fd.h"
#include "base/text.h"
#include "cluster/transport/agent_bootstrap.h"
#include "cluster/transport/remote_command.h"
#include "launcher/job/ray_job_file.h"
#include "launcher/job/ray_runtime_env.h"

namespace hvdray {
namespace {

/// Logs how long a phase of a command took, from construction to Done(), for --verbose.
class TimedPhase {
 public:
  void Done(const std::string& what) const {
    const auto took = std::chrono::steady_clock::now() - began_;
    Log(LogLevel::kInfo, "ray", "{} after={:.3f}s", what,
        std::chrono::duration<double>(took).count());
  }

 private:
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

using Clock = std::chrono::steady_clock;

// A new head does not know its autoscaler yet.
constexpr Duration kAutoscalerPatience = std::chrono::seconds(7);
constexpr Duration kAutoscalerPause = std::chrono::milliseconds(500);
// How long to ask Ray for a job whose submission got no answer.
constexpr Duration kLookForJob = std::chrono::seconds(5);
// The time that Ray gives a stopping job beyond the workers' own grace.
constexpr double kStopReserveSeconds = 10;
constexpr size_t kKeyBytes = 32;
constexpr size_t kShownCommand = 200;

/// Adds the runtime environment's variables to the workers'; -x overrides them. This way they
/// survive what Ray resets on the nodes (OMP_NUM_THREADS). Only Ray can expand those that refer to
/// other variables.
void AddVariables(const RayRuntimeEnv& env, const JobSpec& spec, Environment* environment) {
  const auto variables = env.actors.find("env_vars");
  if (variables == env.actors.end()) return;
  for (const auto& [name, value] : variables->items()) {
    const bool is_named = std::find(spec.env->begin(), spec.env->end(), name) != spec.env->end();
    const auto text = value.get<std::string>();
    if (!is_named && text.find("${") == std::string::npos) environment->Set(name, text);
  }
}

Status Infeasible(const RayOutlook& outlook) {
  return {ErrorCode::kInfeasible,
          fmt::format("{}: {}, and nothing adds nodes", outlook.cluster.address.Shown(),
                      outlook.fit.missing),
          "ask for less, or add nodes; hvdray slots --ray shows what each node has"};
}

constexpr const char* kDriver = ".hvdray/ray_driver.py";

// Only builtins of any /bin/sh: PATH is whatever the raylet started with.
constexpr const char* kFindRaysOwn =
    "while read -r a b c d e f; do case $f in */ray/_raylet.so) s=${f%/ray/_raylet.so};; esac; "
    "done 2>/dev/null </proc/$PPID/maps; "
    "if [ -n \"$s\" ]; then PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$s; export PYTHONPATH; "
    "exec /proc/$PPID/exe -u ";

constexpr const char* kFindPackage =
    "IFS=:; for p in $PYTHONPATH; do [ -f \"$p/{}\" ] && break; done; unset IFS; ";

}  // namespace

Result<RayOutlook> LookAhead(const RayAccess& access, const JobSpec& spec) {
  const TimedPhase phase;
  RayOutlook outlook;
  HVDRAY_ASSIGN_OR_RETURN(outlook.request, MakeRayRequest(ToRayAsk(spec)));
  const TimePoint deadline = Clock::now() + kAutoscalerPatience;
  for (;;) {
    HVDRAY_ASSIGN_OR_RETURN(outlook.cluster, LookAtRay(access.Copy()));
    outlook.fit = FitRequest(outlook.request, outlook.cluster.nodes);
    const std::optional<RayAutoscaler>& autoscaler = outlook.cluster.status.autoscaler;
    outlook.can_grow = !autoscaler || autoscaler->adds_nodes;
    const bool is_settled = outlook.fit.room != RayRoom::kInfeasible || autoscaler.has_value();
    if (is_settled || spec.is_elastic() || Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kAutoscalerPause);
  }
  for (const RayNode& node : outlook.cluster.nodes) {
    if (node.is_head && node.is_alive) outlook.head_node = node.id;
  }
  phase.Done(fmt::format("looked at {}: Ray {}, nodes={}", outlook.cluster.address.Shown(),
                         outlook.cluster.version.ray, outlook.cluster.nodes.size()));
  const bool is_hopeless = outlook.fit.room == RayRoom::kInfeasible && !outlook.can_grow;
  if (is_hopeless && !spec.is_elastic()) return Infeasible(outlook);
  return outlook;
}

Status SendPackage(DashboardClient& client, const PackagePlan& package) {
  const TimedPhase phase;
  // This request also keeps the package for ten minutes if its last job ends just now.
  HVDRAY_ASSIGN_OR_RETURN(const bool is_there, client.HasPackage(package.name));
  if (is_there) {
    phase.Done(fmt::format("package {} is already in the cluster", package.name));
    return {};
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::string bytes, BuildPackage(package));
  const TimedPhase upload;
  HVDRAY_RETURN_IF_ERROR(client.PutPackage(package.name, bytes));
  upload.Done(fmt::format("sent package {} bytes={}", package.name, bytes.size()));
  return {};
}

Result<RayModules> PlanModules(const std::vector<std::string>& modules) {
  RayModules result;
  for (const std::string& module : modules) {
    if (module.find("://") != std::string::npos) {
      result.uris.push_back(module);
    } else if (module.ends_with(".whl")) {
      // pip parses its name.
      const std::string name = module.substr(module.rfind('/') + 1);
      result.uris.push_back("gcs://" + name);
      result.wheels.emplace_back(name, module);
    } else {
      HVDRAY_ASSIGN_OR_RETURN(PackagePlan plan, PlanModulePackage(module));
      result.uris.push_back("gcs://" + plan.name);
      result.directories.push_back(std::move(plan));
    }
  }
  return result;
}

Status SendModules(DashboardClient& client, const RayModules& modules) {
  for (const PackagePlan& directory : modules.directories) {
    HVDRAY_RETURN_IF_ERROR(SendPackage(client, directory));
  }
  for (const auto& [name, path] : modules.wheels) {
    HVDRAY_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxRayPackageBytes));
    HVDRAY_RETURN_IF_ERROR(client.PutPackage(name, bytes));
  }
  return {};
}

Result<RaySubmission> MakeSubmission(const LaunchPlan& plan, const PackagePlan& package,
                                     const RayModules& modules, const RayOutlook& outlook,
                                     bool is_colored, const std::string& control) {
  const JobSpec& spec = plan.spec;
  RayJobFile job;
  job.job_id = plan.job_id;
  job.build = plan.build;
  job.key = Hex(RandomBytes(kKeyBytes));
  job.can_grow = outlook.can_grow;
  job.spec = spec;
  // Only this side knows the terminal.
  job.spec.color.Set(is_colored ? ColorMode::kAlways : ColorMode::kNever, spec.color.origin());
  // Only this side knows the path, too; a later follower may want the report.
  if (spec.report_file->empty()) job.spec.report_file.Set("report.json", "default");
  job.environment = EnvironmentForRay(spec, plan.environment);
  HVDRAY_ASSIGN_OR_RETURN(RayRuntimeEnv env, ParseRuntimeEnvText(*spec.ray.runtime_env));
  env.py_modules.clear();  // the job has them, so its workers have, too
  job.spec.ray.runtime_env.Set(RuntimeEnvText(env), spec.ray.runtime_env.origin());
  AddVariables(env, spec, &job.environment);

  RaySubmission submission;
  HVDRAY_ASSIGN_OR_RETURN(submission.job_package,
                          BuildJobFilePackage(RayJobFileText(job), control));
  RayJobRequest& request = submission.request;
  const bool is_directory_remote = spec.ray.is_directory_remote();
  request.entrypoint = RayEntrypoint(spec.ray);
  // The same id for `hvdray follow` and all of Ray's tools.
  request.submission_id = plan.job_id;
  const std::string own = "gcs://" + package.name;
  request.working_dir = is_directory_remote ? *spec.ray.working_dir : own;
  request.py_modules = {"gcs://" + JobFilePackageName(plan.job_id)};
  if (is_directory_remote) request.py_modules.push_back(own);
  request.py_modules.insert(request.py_modules.end(), modules.uris.begin(), modules.uris.end());
  const double grace = std::chrono::duration<double>(*spec.grace).count();
  request.env_vars = {
      {"RAY_JOB_STOP_WAIT_TIME_S", fmt::format("{:.0f}", std::ceil(grace + kStopReserveSeconds))}};
  request.metadata = {{"hvdray_job_id", plan.job_id},
                      {"hvdray_build", plan.build},
                      {kRayCommandKey, ShownText(QuotedWords(*spec.command), kShownCommand)}};
  return submission;
}

namespace {

/// If the answer is lost, asks Ray whether it has the job.
Status SubmitJob(DashboardClient& client, const RayJobRequest& request) {
  Status sent = client.Submit(request).status();
  if (sent.ok() || sent.code() == ErrorCode::kRayDenied) return sent;
  const std::string& id = request.submission_id;
  const TimePoint deadline = Clock::now() + kLookForJob;
  for (;;) {
    const Result<std::optional<RayJob>> job = client.GetJob(id);
    if (job.ok() && job->has_value()) {
      Log(LogLevel::kInfo, "ray", "Ray has job {} despite: {}", id, sent.message());
      return {};
    }
    if (job.ok()) return sent;
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kAutoscalerPause);
  }
  return {ErrorCode::kRayFailed,
          fmt::format("{}; it is unknown whether Ray accepted job {}", sent.message(), id),
          fmt::format("once Ray answers: hvdray stop {}", id)};
}

}  // namespace

Status Submit(DashboardClient& client, const RaySubmission& submission) {
  const TimedPhase phase;
  const std::string& name = submission.request.py_modules.front();
  constexpr std::string_view kScheme = "gcs://";
  HVDRAY_RETURN_IF_ERROR(client.PutPackage(name.substr(kScheme.size()), submission.job_package));
  HVDRAY_RETURN_IF_ERROR(SubmitJob(client, submission.request));
  phase.Done(fmt::format("submitted job {}", submission.request.submission_id));
  return {};
}

std::string RayEntrypoint(const RaySpec& ray) {
  const std::string& python = *ray.python;
  const bool is_apart = ray.is_directory_remote();
  const std::string driver = is_apart ? fmt::format("\"$p/{}\"", kDriver) : kDriver;
  const std::string find = is_apart ? fmt::format(kFindPackage, kDriver) : std::string();
  if (!python.empty()) return fmt::format("{}exec {} -u {}", find, python, driver);
  return fmt::format("{}{}{}; fi; exec python3 -u {}", find, kFindRaysOwn, driver, driver);
}

}  // namespace hvdray
