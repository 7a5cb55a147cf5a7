#include "cmd/ray/ray_submit.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <utility>

#include "base/digest.h"
#include "cmd/ray/ray_entrypoint.h"
#include "cmd/ray/ray_words.h"
#include "cmd/ray/timed_phase.h"
#include "launcher/spec/ray_ask.h"
#include "launcher/spec/ray_job_file.h"

namespace hvdray {
namespace {

using Clock = std::chrono::steady_clock;

// A head that has just started has not heard of its autoscaler yet.
constexpr Duration kAutoscalerPatience = std::chrono::seconds(7);
constexpr Duration kAutoscalerPause = std::chrono::milliseconds(500);
// How long Ray is asked for a job whose submission it has not answered.
constexpr Duration kLookForJob = std::chrono::seconds(5);
// What Ray grants a job that it stops, beyond the workers' own grace.
constexpr double kStopReserveSeconds = 10;
constexpr size_t kKeyBytes = 32;

Status Infeasible(const RayOutlook& outlook) {
  return {ErrorCode::kInfeasible,
          fmt::format("{}: {}, and nothing adds nodes", outlook.cluster.url, outlook.fit.missing),
          "ask for less, or add nodes; hvdray slots --ray shows what each node has"};
}

}  // namespace

Result<RayOutlook> LookAhead(const RayAccess& access, const JobSpec& spec) {
  const TimedPhase phase;
  RayOutlook outlook;
  HVDRAY_ASSIGN_OR_RETURN(outlook.request, MakeRayRequest(RayAskOf(spec)));
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
  phase.Done(fmt::format("looked at {}: Ray {}, nodes={}", outlook.cluster.url,
                         outlook.cluster.version.ray, outlook.cluster.nodes.size()));
  const bool is_hopeless = outlook.fit.room == RayRoom::kInfeasible && !outlook.can_grow;
  if (is_hopeless && !spec.is_elastic()) return Infeasible(outlook);
  return outlook;
}

Status SendPackage(DashboardClient& client, const PackagePlan& package) {
  const TimedPhase phase;
  // The question also keeps the package for ten minutes, should its last job end just now.
  HVDRAY_ASSIGN_OR_RETURN(const bool is_there, client.HasPackage(package.name));
  if (is_there) {
    phase.Done(fmt::format("package {} is there", package.name));
    return {};
  }
  HVDRAY_ASSIGN_OR_RETURN(const std::string bytes, BuildPackage(package));
  const TimedPhase upload;
  HVDRAY_RETURN_IF_ERROR(client.PutPackage(package.name, bytes));
  upload.Done(fmt::format("sent package {} bytes={}", package.name, bytes.size()));
  return {};
}

Result<RaySubmission> MakeSubmission(const LaunchPlan& plan, const PackagePlan& package,
                                     const RayOutlook& outlook, bool is_colored) {
  const JobSpec& spec = plan.spec;
  RayJobFile job;
  job.job_id = plan.job_id;
  job.build = plan.build;
  job.key = Hex(RandomBytes(kKeyBytes));
  job.can_grow = outlook.can_grow;
  job.spec = spec;
  // Only this end knows the terminal.
  job.spec.color.Set(is_colored ? ColorMode::kAlways : ColorMode::kNever, spec.color.origin());
  // Where it goes is this end's to know, too; whoever follows later may want it.
  if (spec.report_file->empty()) job.spec.report_file.Set("report.json", "default");
  job.environment = EnvironmentForRay(spec, plan.environment);

  RaySubmission submission;
  HVDRAY_ASSIGN_OR_RETURN(submission.job_package, BuildJobFilePackage(RayJobFileText(job)));
  RayJobRequest& request = submission.request;
  request.entrypoint = RayEntrypoint(*spec.ray.python);
  // One name for all: `hvdray follow` and every tool of Ray's know the job by it.
  request.submission_id = plan.job_id;
  request.working_dir = "gcs://" + package.name;
  request.py_modules = {"gcs://" + JobFilePackageName(plan.job_id)};
  const double grace = std::chrono::duration<double>(*spec.grace).count();
  request.env_vars = {
      {"RAY_JOB_STOP_WAIT_TIME_S", fmt::format("{:.0f}", std::ceil(grace + kStopReserveSeconds))}};
  request.metadata = {{"hvdray_job_id", plan.job_id}, {"hvdray_build", plan.build}};
  return submission;
}

namespace {

/// When the answer is lost it looks whether Ray has taken the job.
Status SubmitJob(DashboardClient& client, const RayJobRequest& request) {
  Status sent = client.Submit(request).status();
  if (sent.ok() || sent.code() == ErrorCode::kRayDenied) return sent;
  const std::string& id = request.submission_id;
  const TimePoint deadline = Clock::now() + kLookForJob;
  for (;;) {
    const Result<std::optional<RayJob>> job = client.GetJob(id);
    if (job.ok() && job->has_value()) {
      Log(LogLevel::kInfo, "ray", "job {} is there, although: {}", id, sent.message());
      return {};
    }
    if (job.ok()) return sent;
    if (Clock::now() >= deadline) break;
    std::this_thread::sleep_for(kAutoscalerPause);
  }
  return {ErrorCode::kRayFailed,
          fmt::format("{}; whether Ray has taken job {} is not known", sent.message(), id),
          fmt::format("once it answers: hvdray follow {} --stop", id)};
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

}  // namespace hvdray
