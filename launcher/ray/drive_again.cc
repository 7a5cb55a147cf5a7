// The part of DriveJob for slots that Ray takes away before a worker has started: the group is
// whole again in a moment, or the wait for it begins anew.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "launcher/ray/drive_job.h"

namespace hvdray {
namespace {

// Ray needs up to 13.6 s to see that a node was killed.
constexpr Duration kNoticeLimit = std::chrono::seconds(20);

}  // namespace

bool DriveJob::WasTakenAway(const JobReport& report) const {
  if (report.generations > 0 || report.verdict.losses.empty() || run_.is_orphaned()) return false;
  // An agent that ends by itself would do so anywhere; one that is lost, or that Ray lost, would
  // not.
  const ErrorCode code = report.verdict.error.code();
  return IsMoved() || code == ErrorCode::kRayFailed || code == ErrorCode::kAgentLost;
}

/// The group is not, or no more, where it was placed.
bool DriveJob::IsMoved() const {
  const BrokerGroup& group = wait_->group();
  if (wait_->Look(loop_.Now()) != GroupWait::State::kCreated) return true;
  if (placement_.places.front().group != group.name) return true;
  for (size_t host = 0; host < placement_.places.size(); ++host) {
    for (const int bundle : placement_.places[host].bundles) {
      if (group.bundles[static_cast<size_t>(bundle)] != placement_.node_ids[host]) return true;
    }
  }
  return false;
}

bool DriveJob::WaitAgain() {
  reserve_began_ = loop_.Now();
  const BrokerGroup group = wait_->group();
  wait_.emplace(
      request_,
      GroupWaitOptions{.limit = *run_.spec().ray.group_timeout, .can_grow = run_.job().can_grow},
      reserve_began_);
  wait_->Expect(reserved_.bundles.size());
  wait_->OnGroup(group, reserve_began_);
  if (nodes_) wait_->OnNodes(*nodes_);
  broker_->Watch();
  run_.log().Say(fmt::format("{}; no worker had started: waiting for Ray to replace these slots",
                             taken_.message()),
                 *run_.spec().is_quiet);
  const bool is_whole = WaitOn();
  taken_ = {};
  return is_whole;
}

bool DriveJob::WaitOn() {
  timer_ = loop_.After(Duration::zero(), [this] {
    timer_.Cancel();
    Look();
  });
  run_.Wait();
  return !run_.has_failed();
}

void DriveJob::AwaitRaysNotice() {
  const TimePoint limit = reserve_began_ + std::min(kNoticeLimit, *run_.spec().ray.group_timeout);
  if (loop_.Now() >= limit) return GiveUp(taken_, kDriveFailed);
  timer_ = loop_.After(limit - loop_.Now(), [this] {
    timer_.Cancel();
    Look();
  });
}

}  // namespace hvdray
