// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/gang_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/cause.h"

namespace hvdray {

GangDriver::GangDriver(GangPolicy policy, std::vector<RankInfo> ranks, TimePoint now,
                       StateChangeFn on_change)
    : JobDriver(
          {.grace = policy.grace, .timeout = policy.timeout, .stop_margin = policy.stop_margin},
          GangState::kConnecting, now, std::move(on_change)),
      policy_(std::move(policy)),
      ranks_(std::move(ranks)),
      roster_(on_change_) {
  HVDRAY_CHECK(!ranks_.empty());
  generation_ = policy_.last_generation;
  state_deadline_ = now + policy_.start_timeout;
  for (const RankInfo& info : ranks_) hosts_[info.host_index].name = info.host;
}

std::vector<Effect> GangDriver::Handle(const Event& event, TimePoint now) {
  return Take(now, [&] { std::visit([this](const auto& e) { On(e); }, event); });
}

std::optional<TimePoint> GangDriver::NextDeadline() const {
  return IsTerminal(state()) ? std::nullopt : NextLimit();
}

// Waiting for a user's password does not make a host slow.
std::optional<TimePoint> GangDriver::StateDeadline() const {
  const bool is_starting =
      state() == GangState::kConnecting && ending_.cause.kind == CauseKind::kNone;
  if (!state_deadline_ || !is_starting || !policy_.held_up) return state_deadline_;
  return *state_deadline_ + policy_.held_up();
}

void GangDriver::On(const event::HostReady& e) {
  const auto it = hosts_.find(e.host);
  if (it == hosts_.end() || it->second.is_ready || it->second.is_lost) return Count(false);
  it->second.is_ready = true;
  it->second.offered_port = e.facts.offered_port;
}

void GangDriver::On(const event::HostLost& e) {
  const Status why =
      e.why.ok() ? Status(ErrorCode::kAgentLost, "the link to its agent closed") : e.why;
  if (!Lose(e.host, why)) return Count(false);
  lost_hosts_.push_back(e.host);
  if (state() == GangState::kConnecting) {
    state_deadline_ = std::min(*StateDeadline(), now_ + policy_.settle);
  }
  // Workers that blame a peer have reported this loss before we knew of it.
  if (ending_.cause.kind == CauseKind::kWorkerFailed && roster_.own_failures() == 0) {
    ending_.cause = {};
    failed_rank_ = -1;
  }
  const bool has_running = roster_.counts().living > roster_.counts().starting;
  const bool is_news = ending_.cause.kind == CauseKind::kNone && has_running;
  EndBy(HostLostCause(why));
  // The closing lines come only when the others have ended; say it now.
  if (is_news) {
    Say(fmt::format("{}; the workers of other hosts are stopped",
                    ErrorOfHost(hosts_.at(e.host).name, why).message()));
  }
}

void GangDriver::On(const event::WorkerStarted& e) {
  Count(roster_.MarkStarted(NumberOf(e.generation, e.rank), e.pid, now_));
}

void GangDriver::On(const event::WorkerExited& e) {
  const WorkerId worker = NumberOf(e.generation, e.rank);
  if (!roster_.MarkEnded(worker, e.status, e.was_stopping, now_)) return Count(false);
  if (e.status.is_success() || state() == GangState::kStopping) return;
  const WorkerRecord& record = RecordOf(e.rank);
  if (record.error.peer_words.empty()) last_own_failure_ = now_;
  if (failed_rank_ >= 0) return;
  failed_rank_ = e.rank;
  failing_since_ = now_;
  EndBy(WorkerFailedCause(record, restarts_));
}

void GangDriver::On(const event::WorkerErred& e) {
  Count(roster_.MarkErred(NumberOf(e.generation, e.rank), e.error, e.age, now_));
}

void GangDriver::On(const event::GenerationStopped& e) {
  // A host whose workers have all ended finishes the generation without an order.
  const bool is_expected = state() == GangState::kStopping || roster_.CountLivingOn(e.host) == 0;
  const auto it = hosts_.find(e.host);
  const bool is_news = it != hosts_.end() && e.generation == generation_ && !it->second.is_stopped;
  if (!is_news) return Count(false);
  it->second.is_stopped = true;
  it->second.offered_port = e.offered_port;
  // Agents report exits first.
  for (const WorkerId worker : roster_.LivingOn(e.host)) roster_.MarkLost(worker, now_);
  ending_.swept += e.swept;
  if (is_expected) return;
  On(event::HostLost{e.host, Status(ErrorCode::kProtocolError,
                                    "its agent ended the workers without being told to")});
}

void GangDriver::On(const event::Copying& e) {
  if (state() != GangState::kStarting) return;
  state_deadline_.reset();
  if (!e.is_active) state_deadline_ = now_ + policy_.start_timeout + policy_.preload_limit;
}

// Acts on the known facts; the only place that leaves a state.
void GangDriver::Advance() {
  switch (state()) {
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
  const bool is_settled = !IsAny(&Host::is_awaited);
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
  if (ending_.cause.kind == CauseKind::kNone && roster_.counts().living == 0) EndBy(SuccessCause());
  if (ending_.cause.kind == CauseKind::kNone) {
    if (state() == GangState::kStarting && roster_.counts().starting == 0)
      Enter(GangState::kRunning);
    return;
  }
  // If the command can't be executed, the others need not be awaited.
  const bool is_failure =
      ending_.cause.kind == CauseKind::kWorkerFailed && ending_.cause.origin == ExitOrigin::kWorker;
  const bool is_clear = is_failure && roster_.erring() == 0 && IsPlainCrash(RecordOf(failed_rank_));
  if (is_failure && !is_clear && roster_.counts().living > 0) {
    Enter(GangState::kFailing);
    AdvanceFailing();
    return;
  }
  // Processes left by a successful gang are not workers: they get no grace.
  StopAll(ending_.cause.kind == CauseKind::kSuccess ? Duration::zero() : grace_);
}

void GangDriver::AdvanceFailing() {
  const bool is_asked =
      ending_.cause.kind != CauseKind::kWorkerFailed || ending_.signals > 0 || ending_.is_timed_out;
  if (!is_asked && roster_.counts().living > 0 && now_ < EndOfMoment()) {
    state_deadline_ = EndOfMoment();
    return;
  }
  ChooseCulprit();
  StopAll(grace_);
}

TimePoint GangDriver::EndOfMoment() const {
  const TimePoint longest = failing_since_ + policy_.longest_moment;
  const bool is_known = roster_.own_failures() > 0 && roster_.erring() == 0;
  return is_known ? std::min(longest, last_own_failure_ + policy_.moment) : longest;
}

// Weighs the present evidence; more of the workers' last lines may come until all have stopped.
void GangDriver::ChooseCulprit() {
  if (failed_rank_ < 0) return;
  culprit_ = FindCulprit(Records(), failed_rank_);
  if (culprit_.index >= 0) failed_rank_ = culprit_.index;
  if (ending_.cause.kind != CauseKind::kWorkerFailed) return;
  ending_.cause = WorkerFailedCause(RecordOf(failed_rank_), restarts_);
}

void GangDriver::AdvanceStopping() {
  if (IsAny(&Host::is_unstopped)) return;
  ChooseCulprit();
  if (WillRestart()) {
    Restart();
  } else {
    Finish();
  }
}

bool GangDriver::WillRestart() const {
  // A command that can't be executed will fail the same way again.
  return ending_.cause.kind == CauseKind::kWorkerFailed &&
         ending_.cause.origin == ExitOrigin::kWorker && restarts_ < policy_.max_restarts;
}

void GangDriver::StartGeneration() {
  ++generation_;
  roster_ = WorkerRoster(on_change_);
  for (const RankInfo& place : ranks_) {
    roster_.Add(place, generation_, WorkerRoster::Role::kMember, now_);
  }
  for (auto& [index, host] : hosts_) host.is_stopped = false;
  Enter(GangState::kStarting);
  state_deadline_ = now_ + policy_.start_timeout + policy_.preload_limit;
  const uint16_t offered = hosts_.at(ranks_[0].host_index).offered_port;
  effects_.push_back(effect::StartGeneration{
      .generation = generation_,
      .ranks = ranks_,
      .restart_count = restarts_,
      .master_port = policy_.master_port != 0 ? policy_.master_port : offered});
}

void GangDriver::StopAll(Duration grace) {
  std::vector<int> hosts;
  for (const auto& [index, host] : hosts_) {
    if (host.is_stopped) continue;
    hosts.push_back(index);
    for (const WorkerId worker : roster_.LivingOn(index)) {
      roster_.MarkToldToEnd(worker, grace, now_);
    }
  }
  if (hosts.empty() && !WillRestart()) {
    Finish();
    return;
  }
  if (state() != GangState::kStopping) {
    Enter(GangState::kStopping);
    ending_.since = now_;
  }
  if (hosts.empty()) {  // all have confirmed their end already
    AdvanceStopping();
    return;
  }
  LimitStop(grace);
  effects_.push_back(effect::StopGeneration{generation_, std::move(hosts), grace});
}

void GangDriver::Restart() {
  ++restarts_;
  SayKilled(Records());
  const WorkerRecord& failed = RecordOf(failed_rank_);
  Say(fmt::format("restart {} of {}: {} {}", restarts_, policy_.max_restarts, Name(failed),
                  DescribeFailure(failed)));
  earlier_failure_ = failed;
  ending_.cause = {};
  failed_rank_ = -1;
  culprit_ = {};
  StartGeneration();
}

void GangDriver::Finish() {
  MarkVictims();
  std::vector<HostLoss> losses = Losses();
  if (!losses.empty()) ending_.cause.error = losses.front().error;
  Verdict verdict = Close();
  verdict.losses = std::move(losses);
  verdict.workers = Records();
  verdict.restarts = restarts_;
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
  for (const WorkerRecord& record : Records()) {
    if (!record.status || record.rank == failed_rank_) continue;
    // It blames a peer, or a host was lost. A worker that ends by itself without an error message
    // has failed, too.
    const bool has_fallen =
        !record.status->is_success() && (is_host_lost || !record.error.peer_words.empty());
    if (record.was_stopping || has_fallen) roster_.MarkVictim(static_cast<WorkerId>(record.rank));
  }
}

// Groups lost hosts by reason, if they ended the job.
std::vector<HostLoss> GangDriver::Losses() const {
  if (ending_.cause.kind != CauseKind::kHostLost) return {};
  std::vector<HostLoss> lost;
  for (const int index : lost_hosts_) {
    const Host& host = hosts_.at(index);
    lost.push_back({host.why_lost, {host.name}});
  }
  std::vector<HostLoss> losses = GroupLosses(lost);
  // Once workers run, later losses may be consequences of the first.
  if (HasWorkers()) {
    losses.resize(1);
  } else if (std::vector<std::string> silent = Names(&Host::is_awaited); !silent.empty()) {
    losses.push_back(SilentHosts(std::move(silent)));
  }
  return losses;
}

void GangDriver::ExpireState() {
  switch (state()) {
    case GangState::kConnecting:
      if (ending_.cause.kind == CauseKind::kHostLost) {
        Finish();
      } else {
        EndBy(StartTimeoutCause(Names(&Host::is_awaited), "become ready", policy_.start_timeout));
      }
      break;
    case GangState::kStarting:
      EndBy(StartTimeoutCause(NamesOfStarting(), "start all workers", policy_.start_timeout));
      break;
    case GangState::kStopping: {
      Cause cause = GiveUpCause(Names(&Host::is_unstopped));
      for (const auto& [index, host] : hosts_) {
        if (!host.is_stopped) Lose(index, cause.error);
      }
      EndBy(std::move(cause));
      break;
    }
    case GangState::kFailing:  // Advance() checks the end of the moment.
    case GangState::kRunning:
    case GangState::kFinished:
      break;
  }
}

bool GangDriver::Lose(int host, const Status& why) {
  const auto it = hosts_.find(host);
  if (it == hosts_.end() || it->second.is_lost) return false;
  it->second.is_lost = it->second.is_stopped = true;
  it->second.why_lost = why;
  for (const WorkerId worker : roster_.LivingOn(host)) roster_.MarkLost(worker, now_);
  return true;
}

// The roster begins anew with each generation.
WorkerId GangDriver::NumberOf(Generation generation, int rank) const {
  return generation == generation_ && rank >= 0 ? static_cast<WorkerId>(rank) : kNoWorker;
}

std::vector<WorkerRecord> GangDriver::Records() const {
  std::vector<WorkerRecord> records;
  records.reserve(ranks_.size());
  for (const RankInfo& info : ranks_) {
    if (HasWorkers()) {
      records.push_back(RecordOf(info.rank));
    } else {
      records.push_back({.rank = info.rank, .host = info.host, .local_rank = info.local_rank});
    }
  }
  return records;
}

bool GangDriver::IsAny(HostTest is_wanted) const {
  return std::any_of(hosts_.begin(), hosts_.end(),
                     [&](const auto& entry) { return (entry.second.*is_wanted)(); });
}

std::vector<std::string> GangDriver::Names(HostTest is_wanted) const {
  std::vector<std::string> names;
  for (const auto& [index, host] : hosts_) {
    if ((host.*is_wanted)()) names.push_back(host.name);
  }
  return names;
}

std::vector<std::string> GangDriver::NamesOfStarting() const {
  std::vector<std::string> names;
  for (const auto& [index, host] : hosts_) {
    const std::vector<WorkerId> living = roster_.LivingOn(index);
    const bool is_starting = std::any_of(living.begin(), living.end(), [this](WorkerId worker) {
      return roster_.Of(worker).state == WorkerState::kStarting;
    });
    if (is_starting) names.push_back(host.name);
  }
  return names;
}

}  // namespace hvdray
