// SPDX-License-Identifier: Apache-2.0
#include "launcher/ray/ray_launch_run.h"

#include <fmt/format.h>
#include <string.h>

#include <csignal>
#include <utility>
#include <vector>

#include "base/log.h"
#include "launcher/engine/job_console.h"
#include "launcher/ray/ray_launch.h"
#include "launcher/report/run_ending.h"

namespace hvdray {

namespace {

// Proxies cut connections that are silent for a minute, some after half a minute.
constexpr Duration kPulse = std::chrono::seconds(10);
constexpr Duration kRollLook = std::chrono::milliseconds(200);

}  // namespace

RayLaunchRun::RayLaunchRun(Loop& loop, RayJobFile job, int log_fd, TimePoint began)
    : loop_(loop),
      job_(std::move(job)),
      spec_(job_.spec),
      began_(began),
      began_wall_(std::chrono::system_clock::now()),
      log_(log_fd) {}

Status RayLaunchRun::Open(const std::string& logs) {
  spec_ = SpecOnRay(job_, logs);
  HVDRAY_RETURN_IF_ERROR(log_.Open(RayLaunchFile(logs, job_.job_id, "stream")));
  pulse_ = loop_.Every(kPulse, [this] { log_.Pulse(); });
  roll_ = loop_.Every(
      kRollLook, [this, limit = static_cast<uint64_t>(*spec_.ray.log_limit)] { log_.Roll(limit); });
  return {};
}

void RayLaunchRun::Wait() {
  // The job's log takes only ASCII; while a launcher runs, these lines go there.
  const LogSink log([this](std::string_view line) { log_.Note(line); });
  loop_.Run();
}

void RayLaunchRun::GiveUp(Status why, int exit_code) {
  if (failure_) return;
  failure_ = std::move(why);
  failure_code_ = exit_code;
  loop_.Stop();
}

void RayLaunchRun::StopBy(int signo) {
  if (stop_) return stop_(signo);
  const char* name = ::sigabbrev_np(signo);
  GiveUp({ErrorCode::kInterrupted,
          fmt::format("stopped by SIG{} before it had its slots", name == nullptr ? "?" : name)},
         128 + signo);
}

void RayLaunchRun::Orphan(Status why) {
  orphaned_ = why;
  // Ray ends the agents now; those that still hear us stop in good order.
  if (stop_) return stop_(SIGTERM);
  GiveUp(std::move(why), kLaunchFailed);
}

LaunchPlan RayLaunchRun::PlanWithoutHosts() const {
  LaunchPlan plan = PlanOnRay(job_, spec_);
  plan.began = began_;
  plan.began_wall = began_wall_;
  plan.place.record_fd = log_.stream_fd();
  return plan;
}

Result<LaunchPlan> RayLaunchRun::PlanFor(const RayPlacement& placement) {
  LaunchPlan plan = PlanWithoutHosts();
  HVDRAY_RETURN_IF_ERROR(PlaceStatic(placement, &plan));
  std::vector<std::string> names;
  for (const HostSlots& host : plan.hosts) {
    names.push_back(fmt::format("{}:{}", host.host, host.slots));
  }
  log_.Note(fmt::format("slots: {}", fmt::join(names, ", ")));
  return plan;
}

std::optional<int> RayLaunchRun::Launch(LaunchPlan plan, Transport& transport,
                                        TimePoint reserve_began,
                                        const std::function<bool(const JobReport&)>& is_final) {
  Trace trace(began_, NamesOf(plan.hosts), !spec_.trace_file->empty());
  trace.Begin("reserve", reserve_began);
  trace.End("reserve", loop_.Now());
  Result<std::unique_ptr<Launcher>> launcher = OpenFixed(loop_, transport, trace, std::move(plan));
  if (!launcher.ok()) {
    GiveUp(launcher.status(), kLaunchFailed);
    return EndEarly();
  }
  stop_ = [&launcher](int signo) { (*launcher)->StopBy(signo); };
  JobReport report = (*launcher)->Run();
  if (!is_final(report)) {
    stop_ = nullptr;
    return std::nullopt;
  }
  stop_ = [](int /*signo*/) {};  // the launcher has ended
  return End(trace, std::move(report),
             [&launcher](std::span<const std::string> lines) { (*launcher)->Print(lines); });
}

int RayLaunchRun::EndEarly() {
  JobReport report;
  report.job_id = job_.job_id;
  report.build = job_.build;
  report.command = *spec_.command;
  report.np = *spec_.np;
  report.began = began_;
  report.began_wall = began_wall_;
  report.verdict.exit_code = failure_code_;
  report.verdict.error = *failure_;
  report.verdict.started = began_;
  report.verdict.ended = loop_.Now();
  Trace trace(began_, {}, /*is_detailed=*/false);
  return End(trace, std::move(report), [this](std::span<const std::string> lines) {
    for (const std::string& line : lines) log_.Print(line);
  });
}

int RayLaunchRun::End(Trace& trace, JobReport report, const PrintFn& print) {
  if (orphaned_ && report.verdict.exit_code != 0 && report.verdict.origin == ExitOrigin::kHvdray) {
    report.verdict.exit_code = kLaunchFailed;
    report.verdict.error = *orphaned_;
  }
  Status error = report.verdict.error;
  int exit_code = EndRun(spec_, Wording::kOwn, job_.environment, trace, std::move(report), print);
  const Status lost = log_.End(exit_code, error);
  if (!lost.ok() && exit_code == 0) {
    exit_code = kLaunchFailed;
    error = lost;
  }
  log_.Note(fmt::format("job {} ended with exit code {}{}{}", job_.job_id, exit_code,
                        error.ok() ? "" : ": ", error.ok() ? "" : error.ToString()));
  return exit_code;
}

}  // namespace hvdray
