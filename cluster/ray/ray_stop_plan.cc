// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_stop_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.h"

namespace hvdray {
namespace {

std::string_view WordOf(RayJobStatus status) {
  switch (status) {
    case RayJobStatus::kPending:
      return "pending";
    case RayJobStatus::kRunning:
      return "running";
    case RayJobStatus::kSucceeded:
      return "succeeded";
    case RayJobStatus::kFailed:
      return "failed";
    case RayJobStatus::kStopped:
      return "stopped";
    case RayJobStatus::kUnknown:
      return "in an unknown state";
  }
  return "";
}

const RayJob* Find(const std::vector<RayJob>& jobs, const std::string& id) {
  const auto found = std::ranges::find(jobs, id, &RayJob::submission_id);
  return found == jobs.end() ? nullptr : &*found;
}

}  // namespace

Status StopPlan::Begin(const std::vector<RayJob>& jobs, TimePoint now, Step* step) {
  has_begun_ = true;
  deadline_ = now + limit_;
  for (const std::string& id : wanted_) {
    if (Find(jobs, id) == nullptr) {
      return {ErrorCode::kUsage, fmt::format("no job {}", ShownText(id))};
    }
  }
  if (wanted_.empty()) {
    for (const RayJob& job : jobs) {
      if (IsTerminal(job.status)) continue;
      if (!job.submission_id.empty()) {
        wanted_.push_back(job.submission_id);
      } else {
        step->lines.push_back(fmt::format(
            "job {} was not submitted, so Ray cannot stop it: {}", ShownText(job.job_id),
            job.entrypoint.empty() ? "end the process that began it" : ShownLine(job.entrypoint)));
      }
    }
    if (wanted_.empty()) step->lines.emplace_back("no job runs");
  }
  for (const std::string& id : wanted_) {
    const RayJobStatus status = Find(jobs, id)->status;
    if (IsTerminal(status)) {
      step->lines.push_back(fmt::format("job {} had ended: {}", id, WordOf(status)));
    } else {
      waiting_[id] = RayJobStatus::kUnknown;
    }
  }
  return {};
}

Result<StopPlan::Step> StopPlan::OnLook(const std::vector<RayJob>& jobs, TimePoint now) {
  Step step;
  if (!has_begun_) HVDRAY_RETURN_IF_ERROR(Begin(jobs, now, &step));
  for (auto each = waiting_.begin(); each != waiting_.end();) {
    auto& [id, asked] = *each;
    const RayJob* job = Find(jobs, id);
    if (job == nullptr || IsTerminal(job->status)) {
      step.lines.push_back(
          fmt::format("job {}: {}", ShownText(id), job == nullptr ? "gone" : WordOf(job->status)));
      each = waiting_.erase(each);
      continue;
    }
    if (asked != job->status) {
      step.to_stop.push_back(id);
      const bool is_pending = job->status == RayJobStatus::kPending;
      step.lines.push_back(
          fmt::format("job {}: {}, {}", ShownText(id), WordOf(job->status),
                      is_pending ? "and Ray may stop it only when it runs" : "stopping"));
      asked = job->status;
    }
    ++each;
  }
  step.is_done = waiting_.empty();
  if (!step.is_done && now >= deadline_) {
    return Status(ErrorCode::kDeadlineExceeded,
                  fmt::format("not over after {:.0f} s: {}", Seconds(limit_).count(), WaitsFor()),
                  "it was told to stop: wait with --timeout, or look with hvdray follow");
  }
  return step;
}

std::string StopPlan::WaitsFor() const {
  std::vector<std::string> texts;
  for (const auto& [id, status] : waiting_) {
    texts.push_back(fmt::format("job {} ({})", ShownText(id), WordOf(status)));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace hvdray
