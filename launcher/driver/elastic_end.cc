// How an elastic job ends, and how a gang that is no Horovod job is restarted.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/gang_cause.h"

namespace hvdray {

// The first cause of an end stays; success gives way until every host has reported.
void ElasticDriver::EndBy(ElasticCause cause) {
  if (!ending_.cause.is_final()) ending_.cause = std::move(cause);
}

// All have met or ended, and somebody has ended with success.
void ElasticDriver::EndByDone() {
  ChooseCulprit();
  const int size = static_cast<int>(round_.members.size());
  if (round_.done == size) return EndBy(EndBySuccess());
  const WorkerRecord& winner = roster_.Of(round_.first_done).record;
  if (policy_.success == SuccessRule::kAny) {
    Say(fmt::format("{} ended with success, which is that of the job; {} of {} workers had not",
                    NameOf(winner), size - round_.done, size));
    return EndBy(EndBySuccess());
  }
  EndBy(EndByPartialSuccess(winner, round_.first_failure, size - round_.done));
}

void ElasticDriver::AdvanceGang() {
  if (round_.is_broken) {
    if (round_.moment_by && roster_.counts().living > 0) return;
    ChooseCulprit();
    const std::optional<WorkerRecord>& failed = round_.first_failure;
    if (failed) {
      // A command that could not be executed will not be executable the next time.
      const bool has_run = failed->status->stage == wire::ExecStage::kNone;
      if (!has_run || restarts_ >= policy_.max_restarts) {
        return EndBy(EndByFailure(failed, "", restarts_));
      }
      ++restarts_;
      told_failure_ = fmt::format("{} {}", NameOf(*failed), Describe(*failed->status));
      Say(fmt::format("restart {} of {}: {}", restarts_, policy_.max_restarts, told_failure_));
    }
  } else {
    if (round_.done == static_cast<int>(round_.members.size())) return EndBy(EndBySuccess());
    Retarget();
    // Hosts that come one after the other are one change.
    const bool is_settled = registry_.connecting() == 0 || approach_.is_urgent;
    if (round_.done > 0 || approach_.target == round_.plan || !is_settled) return;
  }
  log_.NoteStandstill(now_);
  StopAll(policy_.grace);
}

void ElasticDriver::AdvanceRestarting() {
  if (!ending_.unstopped.empty()) return;
  round_.is_broken = false;
  Retarget();
  if (SizeOf(approach_.target) >= policy_.min_np) return StartAll();
  HasEnough(policy_.min_np);
  EnterShort();
}

// Of all hosts that were given workers. May repeat with less grace.
void ElasticDriver::StopAll(Duration grace) {
  const bool is_end = ending_.cause.end != ElasticEnd::kNone;
  ending_.unstopped = in_use_;
  if (is_end && in_use_.empty()) return Finish();
  if (is_end) SetBell(false);
  const ElasticState to = is_end ? ElasticState::kStopping : ElasticState::kRestarting;
  if (state_ != to) ending_.since = now_;
  Enter(to);
  const bool is_asked = ending_.cause.end == ElasticEnd::kInterrupted && grace > Duration::zero();
  const int graces = is_asked && IsSigintFirst(ending_.cause.exit_code - 128) ? 2 : 1;
  state_deadline_ = now_ + graces * grace + policy_.stop_margin;
  for (const int host : in_use_) {
    for (const WorkerId worker : roster_.LivingOn(host)) roster_.MarkToldToEnd(worker, now_);
  }
  if (in_use_.empty()) return;
  effects_.push_back(effect::StopGeneration{
      std::max(generation_, started_generation_), {in_use_.begin(), in_use_.end()}, grace});
}

void ElasticDriver::GiveUpUnstopped() {
  const std::set<int> hosts = ending_.unstopped;
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const int host : hosts) names.push_back(registry_.name(host));
  const Status error = StopTimeoutCause(names, now_ - ending_.since).error;
  Say(fmt::format("{}: {}", error.message(), error.hint()));
  for (const int host : hosts) GiveUp(host, error);
  if (state_ == ElasticState::kStopping) EndBy(EndByUnreported(error));
}

bool ElasticDriver::IsDrainUnlimited() const {
  if (state_ != ElasticState::kStopping || !ending_.is_output_blocked) return false;
  if (ending_.signals > 0 || ending_.is_timed_out) return false;
  return ending_.cause.end != ElasticEnd::kReaderGone;
}

void ElasticDriver::Finish() {
  Enter(ElasticState::kFinished);
  ElasticCause& cause = ending_.cause;
  if (cause.end == ElasticEnd::kSuccess && !ending_.output_damage.ok()) {
    cause.exit_code = 125;
    cause.error = ending_.output_damage;
  }
  Verdict verdict{.exit_code = cause.exit_code,
                  .origin = cause.origin,
                  .error = cause.error,
                  .losses = {},
                  .first_failure = round_.first_failure,
                  .is_first_certain = round_.culprit.index < 0 || round_.culprit.is_certain,
                  .evidence = round_.culprit.evidence,
                  .workers = roster_.Records(round_.members),
                  .restarts = IsGang() ? restarts_ : resets_,
                  .swept = ending_.swept,
                  .started = begun_,
                  .ended = now_};
  effects_.push_back(effect::Finish{std::move(verdict)});
}

}  // namespace hvdray
