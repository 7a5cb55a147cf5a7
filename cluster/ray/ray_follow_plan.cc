// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_follow_plan.h"

#include <fmt/format.h>

#include <chrono>
#include <csignal>
#include <string_view>
#include <utility>

#include "base/error_code.h"
#include "base/text.h"

namespace hvdray {
namespace {

using Kind = FollowPlan::Step::Kind;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr int kSignalBase = 128;
// Before its entrypoint runs, a job waits only for Ray itself.
constexpr Duration kPendingTold = seconds(10);
// Ray notices the driver's end after a tenth of a second; a busy head takes longer.
constexpr Duration kEndPatience = seconds(15);
constexpr Duration kSilenceTold = seconds(3);
// A cluster without its head ends itself after 60 s.
constexpr Duration kSilenceLimit = seconds(75);
// Refused connections fail at once and are retried often. A restarted head or tunnel is back sooner
// than this.
constexpr Duration kRefusalLimit = seconds(30);
constexpr int kManyRefusals = 20;

std::string_view LastLineOf(std::string_view text) {
  while (text.ends_with('\n') || text.ends_with(' ') || text.ends_with('\r')) text.remove_suffix(1);
  return text.substr(text.rfind('\n') + 1);
}

/// True if a program that ended with `code` and this line was a Python without Ray.
bool IsWithoutRay(std::optional<int> code, std::string_view last_line) {
  return code == 126 || code == 127 ||
         last_line.find("No module named 'ray'") != std::string_view::npos;
}

std::string Colon(const std::string& text) {
  return text.empty() ? std::string() : ": " + ShownText(text);
}

}  // namespace

void FollowPlan::Say(Steps& steps, std::string text) const {
  if (!options_.is_quiet) steps.push_back({Kind::kSay, std::move(text)});
}

FollowPlan::Steps FollowPlan::Begin(const std::string& likely_node) {
  if (likely_node.empty()) return {};
  followed_ = likely_node;
  return {{Kind::kFollow, followed_}};
}

FollowPlan::Steps FollowPlan::OnJob(const RayJob& job, TimePoint now) {
  Steps steps;
  if (is_done_) return steps;
  if (is_silence_told_) Say(steps, "Ray answers again");
  silent_since_.reset();
  unanswered_ = 0;
  is_silence_told_ = false;
  const bool was_pending = !job_ || job_->status == RayJobStatus::kPending;
  job_ = job;
  if (!job.driver_node_id.empty() && job.driver_node_id != followed_ && !end_) {
    followed_ = job.driver_node_id;
    steps.push_back({Kind::kFollow, followed_});
  }
  if (IsTerminal(job.status)) {
    if (end_) return FinishByEnd();
    if (!is_reading_rest_) steps.push_back({Kind::kReadRest});
    is_reading_rest_ = true;
    return steps;
  }
  // Ray confirms the stop of a pending job, but mostly ignores it; repeat it once the job runs.
  const bool is_owed = std::exchange(is_stop_owed_, false);
  if (is_stop_wanted_ && (was_pending || is_owed)) steps.push_back({Kind::kStop});
  if (job.status == RayJobStatus::kPending) {
    const auto told = (now - began_) / kPendingTold;
    if (told > pending_told_) {
      pending_told_ = static_cast<int>(told);
      Say(steps, fmt::format("job {} has been pending in Ray for {} s{}", options_.id,
                             std::chrono::duration_cast<seconds>(now - began_).count(),
                             Colon(std::string(LastLineOf(job.message)))));
    }
  }
  return steps;
}

FollowPlan::Steps FollowPlan::OnJobUnknown() {
  if (is_done_) return {};
  if (end_) return FinishByEnd();
  return Finish({kHvdrayFailed, Status(ErrorCode::kRayFailed,
                                       fmt::format("Ray no longer knows job {}", options_.id),
                                       "the cluster's head may have restarted")});
}

FollowPlan::Steps FollowPlan::OnNoAnswer(const Status& why, TimePoint now) {
  Steps steps;
  if (is_done_) return steps;
  if (!silent_since_) silent_since_ = now;
  const Duration silence = now - *silent_since_;
  if (silence >= (++unanswered_ >= kManyRefusals ? kRefusalLimit : kSilenceLimit)) {
    if (end_) return FinishByEnd();
    return Finish({kHvdrayFailed, NotThere(why, silence)});
  }
  if (silence >= kSilenceTold && !is_silence_told_) {
    is_silence_told_ = true;
    Say(steps, fmt::format("{}; retrying", why.message()));
  }
  return steps;
}

// Without the hint of `why`, which is for clients that have never reached Ray.
Status FollowPlan::NotThere(const Status& why, Duration silence) const {
  return {why.code(),
          fmt::format("{}; gave up after {} s", why.message(),
                      std::chrono::duration_cast<seconds>(silence).count()),
          fmt::format("unless the head is gone, job {} may still be running: {}", options_.id,
                      options_.how_to_follow)};
}

FollowPlan::Steps FollowPlan::OnEnd(StreamEnd end, TimePoint now) {
  if (is_done_ || end_) return {};
  end_ = std::move(end);
  end_at_ = now;
  if (job_ && IsTerminal(job_->status)) return FinishByEnd();
  return {};
}

FollowPlan::Steps FollowPlan::OnRest(const std::string& last_line) {
  if (is_done_) return {};
  return end_ ? FinishByEnd() : Finish(OutcomeWithoutEnd(last_line));
}

FollowPlan::Steps FollowPlan::OnSignalTo(int signo) {
  if (is_done_) return {};
  ++signals_;
  const bool leaves = options_.on_signal == OnSignal::kLeavesJob && !is_stop_wanted_;
  if (leaves || signals_ > 2) {
    is_done_ = true;
    outcome_ = {kSignalBase + signo, {}};
    Steps steps;
    Say(steps, fmt::format("job {} continues: {}", options_.id, options_.how_to_follow));
    steps.push_back({Kind::kLeave});
    return steps;
  }
  if (stop_signo_ == 0) stop_signo_ = signo;
  if (is_stop_wanted_) return {{Kind::kForceStop}};
  Steps steps;
  // The driver prints what a second signal would do.
  Say(steps, fmt::format("stopping job {}", options_.id));
  for (FollowPlan::Step& step : Stop()) steps.push_back(std::move(step));
  return steps;
}

FollowPlan::Steps FollowPlan::StopNow() {
  // The next signal forces the stop.
  signals_ = 1;
  return Stop();
}

FollowPlan::Steps FollowPlan::OnReaderGone() {
  if (is_done_ || stop_signo_ != 0) return {};
  stop_signo_ = SIGPIPE;
  outcome_.error = {ErrorCode::kReaderGone, "the reader of stdout went away"};
  if (options_.on_signal == OnSignal::kLeavesJob) {
    is_done_ = true;
    outcome_.exit_code = kSignalBase + SIGPIPE;
    return {{Kind::kLeave}};
  }
  return Stop();
}

FollowPlan::Steps FollowPlan::Stop() {
  is_stop_wanted_ = true;
  // If the job's state is unknown yet, OnJob() does it.
  if (!job_) return {};
  return {{Kind::kStop}};
}

void FollowPlan::OnOutputLost(const Status& why) {
  if (output_lost_.ok()) output_lost_ = why;
  // The lost output may be the job's last bytes.
  if (is_done_ && outcome_.exit_code == 0) outcome_ = {kHvdrayFailed, output_lost_};
}

FollowPlan::Steps FollowPlan::OnStopFailed(const Status& why) {
  Steps steps;
  if (is_done_) return steps;
  is_stop_owed_ = true;
  if (!std::exchange(is_stop_failure_told_, true)) {
    Say(steps, fmt::format("{}; retrying", why.message()));
  }
  return steps;
}

FollowPlan::Steps FollowPlan::OnTick(TimePoint now) {
  if (is_done_ || !end_ || now - end_at_ < kEndPatience) return {};
  return FinishByEnd();
}

Duration FollowPlan::AskPause() const {
  if (end_) return milliseconds(100);
  if (silent_since_ || !job_) return milliseconds(500);
  return job_->status == RayJobStatus::kPending ? milliseconds(300) : seconds(1);
}

int FollowPlan::CodeOfStop(int driver_code) const {
  // The driver always gets SIGTERM, whatever signal we got.
  const bool is_of_stop =
      driver_code == kSignalBase + SIGTERM || driver_code == kSignalBase + SIGINT;
  return stop_signo_ != 0 && is_of_stop ? kSignalBase + stop_signo_ : driver_code;
}

FollowPlan::Steps FollowPlan::Finish(FollowPlan::Outcome outcome) {
  is_done_ = true;
  if (outcome.exit_code == 0 && !output_lost_.ok()) outcome = {kHvdrayFailed, output_lost_};
  outcome_ = std::move(outcome);
  return {{Kind::kFinish}};
}

FollowPlan::Steps FollowPlan::FinishByEnd() {
  const bool is_stopped = job_ && job_->status == RayJobStatus::kStopped && !is_stop_wanted_;
  return Finish({CodeOfStop(end_->exit_code), is_stopped ? StoppedByOthers() : Status()});
}

Status FollowPlan::StoppedByOthers() const {
  return {ErrorCode::kInterrupted, fmt::format("someone else stopped job {} in Ray", options_.id)};
}

FollowPlan::Outcome FollowPlan::OutcomeWithoutEnd(const std::string& last_line) const {
  const RayJob& job = *job_;
  if (job.status == RayJobStatus::kStopped) {
    if (is_stop_wanted_) {
      return {kSignalBase + (stop_signo_ != 0 ? stop_signo_ : SIGTERM),
              Status(ErrorCode::kInterrupted,
                     fmt::format("job {} was stopped before it started", options_.id))};
    }
    // As if it had run: who stops a job sends SIGTERM.
    return {kSignalBase + SIGTERM, StoppedByOthers()};
  }
  std::string text = fmt::format("job {}", options_.id);
  if (!job.error_type.empty() && job.error_type != "JOB_ENTRYPOINT_COMMAND_ERROR") {
    // Ray's own message: the driver never ran or was removed.
    text += fmt::format(" failed in Ray: {}{}", job.error_type,
                        Colon(std::string(LastLineOf(job.message))));
  } else {
    text += job.driver_exit_code
                ? fmt::format(": its driver exited with code {}", *job.driver_exit_code)
                : std::string(": its driver exited");
    text += Colon(last_line);
    if (IsWithoutRay(job.driver_exit_code, last_line)) {
      return {
          kHvdrayFailed,
          Status(ErrorCode::kRayFailed, std::move(text),
                 "name the head's Python that has Ray, such as --ray-python /opt/ray/bin/python")};
    }
  }
  return {kHvdrayFailed, Status(ErrorCode::kRayFailed, std::move(text),
                                fmt::format("{} shows all that it wrote", options_.how_to_read))};
}

}  // namespace hvdray
