// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_gang_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/cause.h"

namespace hvdray {

std::vector<ElasticEffect> ElasticGangDriver::Handle(const ElasticEvent& event, TimePoint now) {
  return Take(now, [&] { std::visit([this](const auto& e) { On(e); }, event); });
}

void ElasticGangDriver::AdvanceRunning() {
  if (state() == ElasticState::kRunning) return AdvanceGang();
  if (state() == ElasticState::kRestarting) return AdvanceRestarting();
  if (HasGathered(policy_.min_np)) Restart();
}

void ElasticGangDriver::ProcessEnded(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  if (process.is_told_to_end) return;
  process.record.status->is_success() ? round_.NoteDone(worker) : NoteFailure(worker);
}

void ElasticGangDriver::AdvanceGang() {
  grow_at_.reset();
  if (round_.is_broken()) {
    if (round_.blame().moment_by() && roster_.counts().living > 0) return;
    round_.Weigh(roster_);
    const std::optional<WorkerRecord>& failed = round_.blame().first_failure();
    if (failed) {
      // A command that can't be executed will fail the same way again.
      const bool has_run = failed->status->stage == wire::ExecStage::kNone;
      if (!has_run || restarts_ >= policy_.max_restarts) {
        return EndBy(LossCause(failed, "", restarts_));
      }
      ++restarts_;
      told_failure_ = fmt::format("{} {}", Name(*failed), Describe(*failed->status));
      Say(fmt::format("restart {} of {}: {}", restarts_, policy_.max_restarts, told_failure_));
    } else {
      Retarget();
      if (!CountChange()) return;
    }
  } else {
    if (round_.done() == round_.size()) return EndBy(SuccessCause());
    Retarget();
    if (!IsDueForChange() || !CountChange()) return;
  }
  log_.NoteStandstill(now_);
  StopAll(policy_.grace);
}

void ElasticGangDriver::AdvanceRestarting() {
  if (!unstopped_.empty()) return;
  SayKilled(roster_.Records(round_.members()));
  Retarget();
  HasEnough(policy_.min_np) ? Restart() : EnterShort();
}

void ElasticGangDriver::Restart() {
  StartAll(std::exchange(is_change_counted_, false), std::exchange(told_failure_, {}));
}

// A gang that could go on is restarted only for slots that have been listed for --settle: a host
// that flaps would restart it each time.
bool ElasticGangDriver::IsDueForChange() {
  // Hosts that join one after the other count as one change.
  const bool is_joining = registry_.connecting() > 0 && !target_.is_urgent();
  if (round_.done() > 0 || target_.plan() == round_.plan() || is_joining) return false;
  if (!Holds(round_.plan(), registry_)) return true;
  TimePoint steady_at = now_;
  for (const HostShare& share : target_.plan()) {
    const bool is_more = std::none_of(
        round_.plan().begin(), round_.plan().end(),
        [&](const HostShare& s) { return s.host == share.host && s.count >= share.count; });
    if (!is_more) continue;
    steady_at = std::max(steady_at, registry_.host(share.host).listed_since + policy_.list_settle);
  }
  if (steady_at > now_) grow_at_ = steady_at;
  return steady_at <= now_;
}

// Of a gang that restarts, but not after a worker's failure. On false, the job ends in its place.
bool ElasticGangDriver::CountChange() {
  const auto changes = ChangesBetween(round_.plan(), target_.plan(), registry_);
  is_change_counted_ = resets_.IsCounted(round_, target_.plan(), changes, registry_);
  if (!is_change_counted_) return true;
  if (resets_.IsUsedUp()) {
    EndBy(ResetLimitCause(*policy_.reset_limit));
    return false;
  }
  resets_.Add();
  return true;
}

}  // namespace hvdray
