#include "launcher/driver/gang_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/host_losses.h"

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
  // What was not counted while the reader was slow starts to count now.
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

// A person who looks for a password is not a host that is slow.
std::optional<TimePoint> GangDriver::StateDeadline() const {
  const bool is_starting = state_ == GangState::kConnecting && cause_.kind == CauseKind::kNone;
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
  // Workers that blame a peer have told of this before it was known.
  if (cause_.kind == CauseKind::kWorkerFailed && roster_.own_failures() == 0) {
    cause_ = {};
    failed_rank_ = -1;
  }
  const bool is_news = cause_.kind == CauseKind::kNone && state_ != GangState::kConnecting;
  EndBy(HostLostCause(why));
  // What is told at the end comes only when the others have ended.
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
  // A host whose workers have all ended is done with the generation without being told.
  const bool is_expected = state_ == GangState::kStopping || !roster_.HasLiving(e.host);
  if (!roster_.MarkStopped(e, now_)) {
    ++stale_events_;
    return;
  }
  swept_ += e.swept;
  if (is_expected) return;
  On(event::HostLost{e.host,
                     Status(ErrorCode::kProtocolError, "its agent ended the generation unasked")});
}

void GangDriver::On(const event::UserSignal& e) {
  ++signals_;
  const bool was_stopping = state_ == GangState::kStopping;
  if (signals_ == 1) {
    Cause cause = InterruptedCause(e.signo);
    if (was_stopping) {
      Say("the workers are being stopped already; once more to kill them now");
    } else if (state_ != GangState::kConnecting) {
      Say(StopNotice(e.signo, policy_.grace));
    }
    EndBy(std::move(cause));
  } else if (signals_ == 2 && was_stopping) {
    Say("killing all workers");
    StopGang(Duration::zero());
  }
}

void GangDriver::On(const event::ReaderGone&) { EndBy(ReaderGoneCause()); }

void GangDriver::On(const event::OutputDamaged& e) {
  if (!output_damage_.ok()) return;
  output_damage_ = e.why.ok() ? Status(ErrorCode::kOutputLost, "output was not written whole")
                              : Status(e.why).WithCode(ErrorCode::kOutputLost);
  Say(fmt::format("{}; the job goes on without it", output_damage_.message()));
}

void GangDriver::On(const event::OutputBlocked& e) { is_output_blocked_ = e.is_blocked; }

void GangDriver::On(const event::Copying& e) {
  if (state_ != GangState::kStarting) return;
  state_deadline_.reset();
  if (!e.is_active) state_deadline_ = now_ + policy_.start_timeout;
}

void GangDriver::On(const event::HostSynced&) {}

void GangDriver::On(const event::Tick&) {}

// Draws the consequences of what is known; the only place that leaves a state.
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
  switch (cause_.kind) {
    case CauseKind::kNone:
      if (is_settled) StartGeneration();
      break;
    case CauseKind::kHostLost:
      // Others are waited for to be named too; who wants the end now does not want that.
      if (is_settled || signals_ > 0 || is_timed_out_) Finish();
      break;
    case CauseKind::kSuccess:
    case CauseKind::kWorkerFailed:
    case CauseKind::kStartTimeout:
    case CauseKind::kTimeout:
    case CauseKind::kInterrupted:
    case CauseKind::kReaderGone:
    case CauseKind::kStopTimeout:
      Finish();
      break;
  }
}

void GangDriver::AdvanceRunning() {
  if (cause_.kind == CauseKind::kNone && roster_.living() == 0) EndBy(SuccessCause());
  if (cause_.kind == CauseKind::kNone) {
    if (state_ == GangState::kStarting && roster_.starting() == 0) Enter(GangState::kRunning);
    return;
  }
  // A command that could not be executed needs no look at the others.
  const bool is_failure =
      cause_.kind == CauseKind::kWorkerFailed && cause_.origin == ExitOrigin::kWorker;
  const bool is_clear = is_failure && roster_.erring() == 0 &&
                        IsPlainCrash(roster_.workers()[static_cast<size_t>(failed_rank_)].record);
  if (is_failure && !is_clear && roster_.living() > 0) {
    Enter(GangState::kFailing);
    AdvanceFailing();
    return;
  }
  // What a successful gang leaves behind is no worker: it gets no grace.
  StopGang(cause_.kind == CauseKind::kSuccess ? Duration::zero() : policy_.grace);
}

void GangDriver::AdvanceFailing() {
  const bool is_asked = cause_.kind != CauseKind::kWorkerFailed || signals_ > 0 || is_timed_out_;
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

// Weighs what is known by now; more of the workers' last words may come until all have stopped.
void GangDriver::ChooseCulprit() {
  if (failed_rank_ < 0) return;
  culprit_ = FindCulprit(roster_.Records(), failed_rank_);
  if (culprit_.index >= 0) failed_rank_ = culprit_.index;
  if (cause_.kind != CauseKind::kWorkerFailed) return;
  cause_ =
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

// The first cause of an end stays; one that was no end of the job yet gives way to one that is.
void GangDriver::EndBy(Cause cause) {
  if (!IsCauseFinal()) cause_ = std::move(cause);
}

bool GangDriver::IsCauseFinal() const {
  switch (cause_.kind) {
    case CauseKind::kNone:
    case CauseKind::kSuccess:  // Until every host has reported the end of its output.
      return false;
    case CauseKind::kWorkerFailed:
      return !WillRestart();
    case CauseKind::kHostLost:
    case CauseKind::kStartTimeout:
    case CauseKind::kTimeout:
    case CauseKind::kInterrupted:
    case CauseKind::kReaderGone:
    case CauseKind::kStopTimeout:
      return true;
  }
  return true;
}

bool GangDriver::WillRestart() const {
  // A command that could not be executed will not be executable the next time.
  return cause_.kind == CauseKind::kWorkerFailed && cause_.origin == ExitOrigin::kWorker &&
         restarts_ < policy_.max_restarts;
}

bool GangDriver::IsDrainUnlimited() const {
  if (state_ != GangState::kStopping || !is_output_blocked_) return false;
  if (signals_ > 0 || is_timed_out_) return false;
  return cause_.kind != CauseKind::kReaderGone;
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
    stopping_since_ = now_;
  }
  if (hosts.empty()) {  // all have reported already that nothing is left
    AdvanceStopping();
    return;
  }
  const bool is_asked = cause_.kind == CauseKind::kInterrupted && grace > Duration::zero();
  const int graces = is_asked && IsSigintFirst(cause_.exit_code - 128) ? 2 : 1;
  state_deadline_ = now_ + graces * grace + policy_.stop_margin;
  effects_.push_back(effect::StopGeneration{roster_.generation(), std::move(hosts), grace});
}

void GangDriver::Restart() {
  ++restarts_;
  const WorkerRecord& failed = roster_.workers()[failed_rank_].record;
  Say(fmt::format("restart {} of {}: {} {}", restarts_, policy_.max_restarts, NameOf(failed),
                  DescribeFailure(failed)));
  earlier_failure_ = failed;
  cause_ = {};
  failed_rank_ = -1;
  culprit_ = {};
  StartGeneration();
}

void GangDriver::Finish() {
  Enter(GangState::kFinished);
  MarkVictims();
  std::vector<HostLoss> losses = Losses();
  if (!losses.empty()) cause_.error = losses.front().error;
  if (cause_.kind == CauseKind::kSuccess && !output_damage_.ok()) {
    cause_.exit_code = 125;
    cause_.error = output_damage_;
  }
  Verdict verdict{.exit_code = cause_.exit_code,
                  .origin = cause_.origin,
                  .error = cause_.error,
                  .losses = std::move(losses),
                  .workers = roster_.Records(),
                  .restarts = restarts_,
                  .swept = swept_,
                  .started = begun_,
                  .ended = now_};
  if (failed_rank_ >= 0) {
    verdict.first_failure = verdict.workers[static_cast<size_t>(failed_rank_)];
    verdict.is_first_certain = culprit_.is_certain;
    verdict.evidence = std::move(culprit_.evidence);
  }
  effects_.push_back(effect::Finish{std::move(verdict)});
}

// Whom a lost host or another worker's failure has ended.
void GangDriver::MarkVictims() {
  const bool is_host_lost = cause_.kind == CauseKind::kHostLost;
  if (failed_rank_ < 0 && !is_host_lost) return;
  for (const GangRoster::Worker& worker : roster_.workers()) {
    const WorkerRecord& record = worker.record;
    if (!record.status || record.rank == failed_rank_) continue;
    // With a peer, as it says, or with a lost host. Whoever ends by itself without a word has
    // failed, too.
    const bool has_fallen =
        !record.status->is_success() && (is_host_lost || !record.error.peer_words.empty());
    if (record.was_stopping || has_fallen) roster_.MarkVictim(record.rank);
  }
}

// By reason, if they are why the job ends.
std::vector<HostLoss> GangDriver::Losses() const {
  if (cause_.kind != CauseKind::kHostLost) return {};
  std::vector<LostHost> lost;
  for (const int index : lost_hosts_) {
    const Host& host = roster_.host(index);
    lost.push_back({host.name, host.why_lost});
  }
  std::vector<HostLoss> losses = GroupLosses(lost);
  // Once there are workers, a later loss may be the doing of the first.
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
    // Workers that have all succeeded were in time; only the wait for a slow reader ends.
    const bool was_unlimited = IsDrainUnlimited();
    is_timed_out_ = true;
    if (was_unlimited) state_deadline_ = now_ + policy_.stop_margin;
    if (cause_.kind != CauseKind::kSuccess) EndBy(TimeoutCause(policy_.timeout));
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
      if (cause_.kind == CauseKind::kHostLost) {
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
    case GangState::kFailing:  // Advance() sees that the moment is over.
    case GangState::kRunning:
    case GangState::kFinished:
      break;
  }
}

void GangDriver::GiveUpHosts() {
  Cause cause = StopTimeoutCause(roster_.Names(IsUnstopped), now_ - stopping_since_);
  Say(fmt::format("{}: {}", cause.error.message(), cause.error.hint()));
  for (const auto& [index, host] : roster_.hosts()) {
    if (!host.is_stopped) roster_.MarkLost(index, cause.error, now_);
  }
  EndBy(std::move(cause));
}

}  // namespace hvdray
