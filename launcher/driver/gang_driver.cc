// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/gang_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/cause.h"

namespace hvdray {
namespace {

using Host = GangRoster::Host;

bool IsReady(const Host& host) { return host.is_ready; }
bool IsAwaited(const Host& host) { return !host.is_ready && !host.is_lost; }
bool IsUnstopped(const Host& host) { return !host.is_stopped; }

}  // namespace

GangDriver::GangDriver(GangPolicy policy, std::vector<RankInfo> ranks, TimePoint now,
                       StateChangeFn on_change)
    : policy_(std::move(policy)),
      on_change_(on_change),
      begun_(now),
      roster_(std::move(ranks), std::move(on_change)),
      now_(now),
      state_deadline_(now + policy_.start_timeout) {
  if (policy_.timeout > Duration::zero()) job_deadline_ = now + policy_.timeout;
}

std::vector<Effect> GangDriver::Handle(const Event& event, TimePoint now) {
  if (IsTerminal(state_)) return {};
  now_ = std::max(now_, now);
  effects_.clear();
  const bool was_unlimited = IsDrainUnlimited();
  std::visit([this](const auto& e) { On(e); }, event);
  Advance();
  // The limit that was suspended while the reader was slow starts now.
  if (was_unlimited && !IsDrainUnlimited() && state_ == GangState::kStopping) {
    state_deadline_ = std::max(*state_deadline_, now_ + policy_.stop_margin);
  }
  ExpireDeadlines();
  return std::exchange(effects_, {});
}

std::optional<TimePoint> GangDriver::NextDeadline() const {
  if (IsTerminal(state_)) return std::nullopt;
  std::optional<TimePoint> next = job_deadline_;
  if (const auto of_state = StateDeadline(); of_state && !IsDrainUnlimited()) {
    next = next ? std::min(*next, *of_state) : *of_state;
  }
  return next;
}

// Waiting for a user's password does not make a host slow.
std::optional<TimePoint> GangDriver::StateDeadline() const {
  const bool is_starting =
      state_ == GangState::kConnecting && ending_.cause.kind == CauseKind::kNone;
  if (!state_deadline_ || !is_starting || !policy_.held_up) return state_deadline_;
  return *state_deadline_ + policy_.held_up();
}

GangSnapshot GangDriver::Snapshot() const {
  GangSnapshot snapshot{.state = state_,
                        .generation = roster_.generation(),
                        .restarts = restarts_,
                        .hosts_ready = roster_.Count(IsReady),
                        .hosts_expected = static_cast<int>(roster_.hosts().size()),
                        .stale_events = stale_events_};
  snapshot.workers.reserve(roster_.workers().size());
  for (const GangRoster::Worker& worker : roster_.workers()) {
    const WorkerRecord& record = worker.record;
    snapshot.workers.push_back({record.rank, record.host, record.pid, worker.state});
  }
  return snapshot;
}

void GangDriver::On(const event::HostReady& e) {
  if (!roster_.MarkReady(e.host, e.facts.offered_port)) ++stale_events_;
}

void GangDriver::On(const event::HostLost& e) {
  const Status why =
      e.why.ok() ? Status(ErrorCode::kAgentLost, "the link to its agent closed") : e.why;
  if (!roster_.MarkLost(e.host, why, now_)) {
    ++stale_events_;
    return;
  }
  lost_hosts_.push_back(e.host);
  if (state_ == GangState::kConnecting) {
    state_deadline_ = std::min(*StateDeadline(), now_ + policy_.settle);
  }
  // Workers that blame a peer have reported this loss before we knew of it.
  if (ending_.cause.kind == CauseKind::kWorkerFailed && roster_.own_failures() == 0) {
    ending_.cause = {};
    failed_rank_ = -1;
  }
  const bool is_news = ending_.cause.kind == CauseKind::kNone && state_ != GangState::kConnecting;
  EndBy(HostLostCause(why));
  // The closing lines come only when the others have ended; say it now.
  if (is_news && roster_.living() > 0) {
    Say(fmt::format("{}; the workers of other hosts are stopped",
                    ErrorOfHost(roster_.host(e.host).name, why).message()));
  }
}

void GangDriver::On(const event::WorkerStarted& e) {
  if (!roster_.MarkStarted(e, now_)) ++stale_events_;
}

void GangDriver::On(const event::WorkerExited& e) {
  if (!roster_.MarkExited(e, now_)) {
    ++stale_events_;
    return;
  }
  if (e.status.is_success() || state_ == GangState::kStopping) return;
  const WorkerRecord& record = roster_.workers()[e.rank].record;
  if (record.error.peer_words.empty()) last_own_failure_ = now_;
  if (failed_rank_ >= 0) return;
  failed_rank_ = e.rank;
  failing_since_ = now_;
  EndBy(WorkerFailedCause(record, restarts_));
}

void GangDriver::On(const event::WorkerErred& e) {
  if (!roster_.MarkErred(e, now_)) ++stale_events_;
}

void GangDriver::On(const event::GenerationStopped& e) {
  // A host whose workers have all ended finishes the generation without an order.
  const bool is_expected = state_ == GangState::kStopping || !roster_.HasLiving(e.host);
  if (!roster_.MarkStopped(e, now_)) {
    ++stale_events_;
    return;
  }
  ending_.swept += e.swept;
  if (is_expected) return;
  On(event::HostLost{e.host,
                     Status(ErrorCode::kProtocolError, "its agent ended the generation unasked")});
}

void GangDriver::On(const event::UserSignal& e) {
  ++ending_.signals;
  const bool was_stopping = state_ == GangState::kStopping;
  if (ending_.signals == 1) {
    Cause cause = InterruptedCause(e.signo);
    if (was_stopping) {
      Say("the workers are being stopped already; once more to kill them now");
    } else if (state_ != GangState::kConnecting) {
      Say(StopNotice(e.signo, policy_.grace));
    }
    EndBy(std::move(cause));
  } else if (ending_.signals == 2 && was_stopping) {
    Say("killing all workers");
    StopGang(Duration::zero());
  }
}

void GangDriver::On(const event::ReaderGone&) { EndBy(ReaderGoneCause()); }

void GangDriver::On(const event::OutputDamaged& e) {
  if (std::string text = ending_.NoteDamage(e.why); !text.empty()) Say(std::move(text));
}

void GangDriver::On(const event::OutputBlocked& e) { ending_.is_output_blocked = e.is_blocked; }

void GangDriver::On(const event::Copying& e) {
  if (state_ != GangState::kStarting) return;
  state_deadline_.reset();
  if (!e.is_active) state_deadline_ = now_ + policy_.start_timeout;
}

void GangDriver::On(const event::HostSynced&) {}

void GangDriver::On(const event::Tick&) {}

// Acts on the known facts; the only place that leaves a state.
void GangDriver::Advance() {
  switch (state_) {
    case GangState::kConnecting:
      AdvanceConnecting();
      break;
    case GangState::kStarting:
    case GangState::kRunning:
      AdvanceRunning();
      break;
    case GangState::kFailing:
      AdvanceFailing();
      break;
    case GangState::kStopping:
      AdvanceStopping();
      break;
    case GangState::kFinished:
      break;
  }
}

void GangDriver::AdvanceConnecting() {
  const bool is_settled = roster_.Count(IsAwaited) == 0;
  if (ending_.cause.kind == CauseKind::kNone) {
    if (is_settled) StartGeneration();
    return;
  }
  // Waits for other failing hosts so that all are named, unless the user wants the end now.
  const bool may_wait =
      ending_.cause.kind == CauseKind::kHostLost && ending_.signals == 0 && !ending_.is_timed_out;
  if (is_settled || !may_wait) Finish();
}

void GangDriver::AdvanceRunning() {
  if (ending_.cause.kind == CauseKind::kNone && roster_.living() == 0) EndBy(SuccessCause());
  if (ending_.cause.kind == CauseKind::kNone) {
    if (state_ == GangState::kStarting && roster_.starting() == 0) Enter(GangState::kRunning);
    return;
  }
  // If the command can't be executed, the others need not be awaited.
  const bool is_failure =
      ending_.cause.kind == CauseKind::kWorkerFailed && ending_.cause.origin == ExitOrigin::kWorker;
  const bool is_clear = is_failure && roster_.erring() == 0 &&
                        IsPlainCrash(roster_.workers()[static_cast<size_t>(failed_rank_)].record);
  if (is_failure && !is_clear && roster_.living() > 0) {
    Enter(GangState::kFailing);
    AdvanceFailing();
    return;
  }
  // Processes left by a successful gang are not workers: they get no grace.
  StopGang(ending_.cause.kind == CauseKind::kSuccess ? Duration::zero() : policy_.grace);
}

void GangDriver::AdvanceFailing() {
  const bool is_asked =
      ending_.cause.kind != CauseKind::kWorkerFailed || ending_.signals > 0 || ending_.is_timed_out;
  if (!is_asked && roster_.living() > 0 && now_ < EndOfMoment()) {
    state_deadline_ = EndOfMoment();
    return;
  }
  ChooseCulprit();
  StopGang(policy_.grace);
}

TimePoint GangDriver::EndOfMoment() const {
  const TimePoint longest = failing_since_ + policy_.longest_moment;
  const bool is_known = roster_.own_failures() > 0 && roster_.erring() == 0;
  return is_known ? std::min(longest, last_own_failure_ + policy_.moment) : longest;
}

// Weighs the present evidence; more of the workers' last lines may come until all have stopped.
void GangDriver::ChooseCulprit() {
  if (failed_rank_ < 0) return;
  culprit_ = FindCulprit(roster_.Records(), failed_rank_);
  if (culprit_.index >= 0) failed_rank_ = culprit_.index;
  if (ending_.cause.kind != CauseKind::kWorkerFailed) return;
  ending_.cause =
      WorkerFailedCause(roster_.workers()[static_cast<size_t>(failed_rank_)].record, restarts_);
}

void GangDriver::AdvanceStopping() {
  if (roster_.Count(IsUnstopped) > 0) return;
  ChooseCulprit();
  if (WillRestart()) {
    Restart();
  } else {
    Finish();
  }
}

void GangDriver::Enter(GangState to) {
  const GangState from = std::exchange(state_, to);
  HVDRAY_CHECK(CanFollow(from, to));
  state_deadline_.reset();
  if (on_change_) {
    on_change_(
        {.when = now_, .generation = roster_.generation(), .from = NameOf(from), .to = NameOf(to)});
  }
}

// The first cause wins; a cause that does not end the job yet is replaced by one that does.
void GangDriver::EndBy(Cause cause) {
  if (!IsCauseFinal()) ending_.cause = std::move(cause);
}

bool GangDriver::IsCauseFinal() const { return ending_.cause.is_final() && !WillRestart(); }

bool GangDriver::WillRestart() const {
  // A command that can't be executed will fail the same way again.
  return ending_.cause.kind == CauseKind::kWorkerFailed &&
         ending_.cause.origin == ExitOrigin::kWorker && restarts_ < policy_.max_restarts;
}

bool GangDriver::IsDrainUnlimited() const {
  return state_ == GangState::kStopping && ending_.IsDrainUnlimited();
}

void GangDriver::StartGeneration() {
  roster_.BeginGeneration(roster_.generation() + 1, now_);
  Enter(GangState::kStarting);
  state_deadline_ = now_ + policy_.start_timeout;
  const uint16_t offered = roster_.host(roster_.ranks()[0].host_index).offered_port;
  effects_.push_back(effect::StartGeneration{
      .generation = roster_.generation(),
      .ranks = roster_.ranks(),
      .restart_count = restarts_,
      .master_port = policy_.master_port != 0 ? policy_.master_port : offered});
}

void GangDriver::StopGang(Duration grace) {
  std::vector<int> hosts = roster_.MarkStopping(now_);
  if (hosts.empty() && !WillRestart()) {
    Finish();
    return;
  }
  if (state_ != GangState::kStopping) {
    Enter(GangState::kStopping);
    ending_.since = now_;
  }
  if (hosts.empty()) {  // all have confirmed their end already
    AdvanceStopping();
    return;
  }
  state_deadline_ = now_ + ending_.StopLimit(grace, policy_.stop_margin);
  effects_.push_back(effect::StopGeneration{roster_.generation(), std::move(hosts), grace});
}

void GangDriver::Restart() {
  ++restarts_;
  const WorkerRecord& failed = roster_.workers()[failed_rank_].record;
  Say(fmt::format("restart {} of {}: {} {}", restarts_, policy_.max_restarts, NameOf(failed),
                  DescribeFailure(failed)));
  earlier_failure_ = failed;
  ending_.cause = {};
  failed_rank_ = -1;
  culprit_ = {};
  StartGeneration();
}

void GangDriver::Finish() {
  Enter(GangState::kFinished);
  MarkVictims();
  std::vector<HostLoss> losses = Losses();
  if (!losses.empty()) ending_.cause.error = losses.front().error;
  ending_.Close();
  Verdict verdict{.exit_code = ending_.cause.exit_code,
                  .origin = ending_.cause.origin,
                  .error = ending_.cause.error,
                  .losses = std::move(losses),
                  .workers = roster_.Records(),
                  .restarts = restarts_,
                  .swept = ending_.swept,
                  .started = begun_,
                  .ended = now_};
  if (failed_rank_ >= 0) {
    verdict.first_failure = verdict.workers[static_cast<size_t>(failed_rank_)];
    verdict.is_first_certain = culprit_.is_certain;
    verdict.evidence = std::move(culprit_.evidence);
  }
  effects_.push_back(effect::Finish{std::move(verdict)});
}

// Marks workers that ended because of a lost host or another worker's failure.
void GangDriver::MarkVictims() {
  const bool is_host_lost = ending_.cause.kind == CauseKind::kHostLost;
  if (failed_rank_ < 0 && !is_host_lost) return;
  for (const GangRoster::Worker& worker : roster_.workers()) {
    const WorkerRecord& record = worker.record;
    if (!record.status || record.rank == failed_rank_) continue;
    // It blames a peer, or a host was lost. A worker that ends by itself without an error message
    // has failed, too.
    const bool has_fallen =
        !record.status->is_success() && (is_host_lost || !record.error.peer_words.empty());
    if (record.was_stopping || has_fallen) roster_.MarkVictim(record.rank);
  }
}

// Groups lost hosts by reason, if they ended the job.
std::vector<HostLoss> GangDriver::Losses() const {
  if (ending_.cause.kind != CauseKind::kHostLost) return {};
  std::vector<LostHost> lost;
  for (const int index : lost_hosts_) {
    const Host& host = roster_.host(index);
    lost.push_back({host.name, host.why_lost});
  }
  std::vector<HostLoss> losses = GroupLosses(lost);
  // Once workers run, later losses may be consequences of the first.
  if (roster_.generation() > 0) {
    losses.resize(1);
  } else if (std::vector<std::string> silent = roster_.Names(IsAwaited); !silent.empty()) {
    losses.push_back(SilentHosts(std::move(silent)));
  }
  return losses;
}

void GangDriver::ExpireDeadlines() {
  if (job_deadline_ && now_ >= *job_deadline_ && !IsTerminal(state_)) {
    job_deadline_.reset();
    // If all workers have succeeded in time, only the wait for a slow reader ends.
    const bool was_unlimited = IsDrainUnlimited();
    ending_.is_timed_out = true;
    if (was_unlimited) state_deadline_ = now_ + policy_.stop_margin;
    if (ending_.cause.kind != CauseKind::kSuccess) EndBy(TimeoutCause(policy_.timeout));
    Advance();
  }
  if (const auto of_state = StateDeadline(); of_state && now_ >= *of_state && !IsDrainUnlimited()) {
    state_deadline_.reset();
    ExpireState();
    Advance();
  }
}

void GangDriver::ExpireState() {
  switch (state_) {
    case GangState::kConnecting:
      if (ending_.cause.kind == CauseKind::kHostLost) {
        Finish();
      } else {
        EndBy(StartTimeoutCause(roster_.Names(IsAwaited), "become ready", policy_.start_timeout));
      }
      break;
    case GangState::kStarting:
      EndBy(
          StartTimeoutCause(roster_.NamesOfStarting(), "start all workers", policy_.start_timeout));
      break;
    case GangState::kStopping:
      GiveUpHosts();
      break;
    case GangState::kFailing:  // Advance() checks the end of the moment.
    case GangState::kRunning:
    case GangState::kFinished:
      break;
  }
}

void GangDriver::GiveUpHosts() {
  Cause cause = StopTimeoutCause(roster_.Names(IsUnstopped), now_ - ending_.since);
  Say(fmt::format("{}: {}", cause.error.message(), cause.error.hint()));
  for (const auto& [index, host] : roster_.hosts()) {
    if (!host.is_stopped) roster_.MarkLost(index, cause.error, now_);
  }
  EndBy(std::move(cause));
}

}  // namespace hvdray
