// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/horovod_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/cause.h"
#include "launcher/job/value_text.h"

namespace hvdray {

std::vector<ElasticEffect> HorovodDriver::Handle(const ElasticEvent& event, TimePoint now) {
  return Take(now, [&] { std::visit([this](const auto& e) { On(e); }, event); });
}

std::optional<TimePoint> HorovodDriver::NextRunning() const {
  const std::optional<TimePoint>& notice = notices_.next();
  if (!notice || !straggler_deadline_) return notice ? notice : straggler_deadline_;
  return std::min(*notice, *straggler_deadline_);
}

void HorovodDriver::AdvanceRunning() { IsTraining(state()) ? AdvanceTraining() : CloseRound(); }

void HorovodDriver::ProcessEnded(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  const bool is_ours = process.is_told_to_end;
  switch (process.role) {
    case WorkerRoster::Role::kNewcomer:
      if (!is_ours) NewcomerDied(worker);
      return;
    case WorkerRoster::Role::kRemoved:
      return;
    case WorkerRoster::Role::kMember:
      if (Rejoin(worker)) return;
      if (is_ours) {
        // A worker given up in hvd.init() that can't be replaced is lost to the others like a
        // failed one.
        if (has_barrier_) round_.Break(now_);
        return;
      }
      if (!process.record.status->is_success()) return MemberFailed(worker);
      return round_.NoteDone(worker);
  }
}

void HorovodDriver::MembersLost() {
  next_.DropPlan();
  BreakConnections();
}

void HorovodDriver::ExpireProcess(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  if (process.role == WorkerRoster::Role::kNewcomer && !process.has_arrived) {
    Say(fmt::format("{} did not join within {}", Name(process.record),
                    ShowDuration(policy_.elastic_timeout)));
    StopWorkers(std::vector{worker}, Duration::zero());
    NewcomerDied(worker);
  } else if (process.role == WorkerRoster::Role::kRemoved) {
    StopWorkers(std::vector{worker}, policy_.grace);
  }
}

void HorovodDriver::ExpireRunning() {
  if (const auto& limit = round_.barrier().limit(); limit && now_ >= *limit) ExpireBarrier();
  ElasticDriver::ExpireRunning();
  if (straggler_deadline_ && now_ >= *straggler_deadline_) {
    straggler_deadline_.reset();
    StopStragglers();
  }
}

void HorovodDriver::ExpireOthers() {
  ElasticDriver::ExpireOthers();
  SendNotice();
}

void HorovodDriver::On(const event::WorkerArrived& e) { Count(roster_.MarkArrived(e.worker)); }

void HorovodDriver::On(const event::RankAsked& e) {
  Count(roster_.MarkParked(e.worker));
  round_.barrier().NoteThrough(now_);
}

void HorovodDriver::On(const event::AddressesRegistered& e) {
  Count(roster_.MarkRegistered(e.worker));
  round_.barrier().NoteThrough(now_);
  // Horovod's workers have passed the barrier by now. Those of hvdray.torch have none.
  const Process* process = roster_.Living(e.worker);
  const bool is_member = process != nullptr && process->role == WorkerRoster::Role::kMember;
  if (is_member && !process->has_met) has_barrier_ = false;
  // If a notice is pending for this worker, send it at once.
  const bool is_rank_0 = !round_.members().empty() && round_.members().front() == e.worker;
  if (is_rank_0) notices_.Hurry(now_);
}

void HorovodDriver::On(const event::WorkerMet& e) {
  const bool is_news = has_barrier_ && roster_.MarkMet(e.worker);
  Count(is_news);
  if (!is_news) return;
  if (!round_.Meet(now_ + policy_.elastic_timeout, IsTraining(state()))) return;
  effects_.push_back(effect::OpenBarrier{generation_});
}

void HorovodDriver::On(const event::WorkerConnected& e) {
  const bool is_news = has_barrier_ && roster_.MarkConnected(e.worker);
  Count(is_news);
  if (is_news) round_.barrier().Connect(now_);
}

// Called while no member waits for a rank and none is lost.
void HorovodDriver::AdvanceTraining() {
  const WorkerRoster::Counts& counts = roster_.counts();
  const bool is_over = round_.is_broken() || counts.members == 0 || round_.IsBarrierLost();
  if (counts.parked > 0 || is_over) return BeginMeeting();
  const bool has_changed = Retarget();
  if (!has_changed && state() == ElasticState::kRunning && round_.done() == 0) return;
  const bool is_back = target_.plan() == round_.plan();
  if (is_back || !Holds(next_.plan(), registry_)) next_.DropPlan();
  // When one member ends, the others are about to end, too: call no one.
  if (round_.done() > 0 || is_back) return AbandonJoin();
  const bool is_warm = policy_.join == JoinMode::kWarm && !target_.is_urgent();
  const bool is_enough = target_.size() >= policy_.min_np;
  if (is_warm && is_enough) {
    if (!next_.has_plan()) next_.Prepare(target_.plan(), registry_);
    if (has_changed) StartMissingWorkers();
    if (!IsNextMet()) {
      notices_.Stop();
      return Enter(ElasticState::kJoining);
    }
  }
  Enter(ElasticState::kCalling);
  notices_.Start(now_);
}

void HorovodDriver::AbandonJoin() {
  notices_.Stop();
  StopWorkers(next_.Abandon(roster_), Duration::zero());
  Enter(ElasticState::kRunning);
}

void HorovodDriver::BeginMeeting() {
  log_.NoteStandstill(now_);
  notices_.Stop();
  round_.barrier().GiveUp();
  Enter(ElasticState::kMeeting);
  if (policy_.straggler_timeout > Duration::zero()) {
    straggler_deadline_ = now_ + policy_.straggler_timeout;
  }
}

// Publishes only once every old process is parked or reaped: a stale worker could otherwise take a
// rank of the new generation.
void HorovodDriver::CloseRound() {
  if (!round_.barrier().is_open() && CanBeginAgain()) return BeginAgain();
  if (round_.IsBarrierLost()) return EndByLostBarrier();
  const WorkerRoster::Counts& counts = roster_.counts();
  if (counts.unsettled > 0) {
    Retarget();  // Lets agents of spare hosts start meanwhile.
    return;
  }
  straggler_deadline_.reset();
  if (round_.done() > 0) return EndByDone();
  if (counts.staying == 0) {
    if (CanBeginAgain()) {
      Retarget();
      // A failure on the last hosts ends the job with its exit code; no other host is awaited.
      if (!round_.blame().first_failure() || target_.HasInSight(policy_.min_np, registry_))
        return BeginAgain();
    }
    round_.Weigh(roster_);
    Cause cause = LossCause(round_.blame().first_failure(), log_.FirstReason(), 0);
    return EndBy(round_.fell_apart() ? WhileConnecting(std::move(cause)) : std::move(cause));
  }
  if (round_.has_failures() && resets_.IsUsedUp()) {
    return EndBy(ResetLimitCause(*policy_.reset_limit));
  }
  Regroup();
}

// Called once all living members wait for a rank.
void HorovodDriver::Regroup() {
  const bool has_changed = Retarget();
  // Rank 0 broadcasts the state, so it must have it.
  const auto has_state = [this](const HostPlan& plan) {
    return HasMemberThatGoesOn(roster_, plan.front().host);
  };
  const bool is_possible =
      next_.has_plan() && Holds(next_.plan(), registry_) && has_state(next_.plan());
  if (!is_possible) next_.DropPlan();
  if (is_possible && IsNextMet()) return Publish(next_.plan());
  const bool is_waiting = state() == ElasticState::kGate || state() == ElasticState::kShort;
  if (is_waiting && !has_changed) return;
  if (!HasEnough(policy_.min_np)) {
    next_.DropPlan();
    return EnterShort();
  }
  if (!has_state(target_.plan())) return EndBy(NoCommonHostCause());
  if (!is_possible) next_.Prepare(target_.plan(), registry_);
  if (IsNextMet()) return Publish(next_.plan());
  const std::optional<HostPlan> survivors = Survivors(target_.plan(), roster_);
  const bool can_go_on = survivors && SizeOf(*survivors) >= policy_.min_np;
  if (policy_.join == JoinMode::kWarm && can_go_on) return Publish(*survivors);
  StartMissingWorkers();
  Enter(ElasticState::kGate);
}

// Stops newcomers that were promised another place, and starts the missing workers of the next
// generation.
void HorovodDriver::StartMissingWorkers() {
  const Generation number = generation_ + 1;
  StopWorkers(next_.Misplaced(roster_, number), Duration::zero());
  effect::StartWorkers start{.generation = number,
                             .workers = next_.StartMissing(roster_, number, now_),
                             .restart_count = restarts_,
                             .master_port = policy_.master_port};
  if (start.workers.empty()) return;
  for (const NewWorker& one : start.workers) {
    in_use_.insert(one.place.host_index);
    roster_.SetLimit(one.worker, now_ + policy_.elastic_timeout);
  }
  started_generation_ = number;
  effects_.push_back(std::move(start));
}

// By value: `plan` may belong to next_, which is reset here.
// NOLINTNEXTLINE(performance-unnecessary-value-param)
void HorovodDriver::Publish(HostPlan plan) {
  std::vector<HostChange> changes = ChangesBetween(round_.plan(), plan, registry_);
  const bool is_counted = resets_.IsCounted(round_, plan, changes, registry_);
  if (is_counted && resets_.IsUsedUp()) {
    return EndBy(ResetLimitCause(*policy_.reset_limit));
  }
  if (is_counted) resets_.Add();
  resets_.NoteNext(round_, SizeOf(plan));
  effect::PublishGeneration publish{.ranks = RanksOf(plan, registry_)};
  bool has_newcomers = false;
  for (const RankInfo& place : publish.ranks) {
    publish.workers.push_back(roster_.On(place.host_index, place.local_rank));
    has_newcomers |= !GoesOn(roster_, publish.workers.back());
  }
  // Newcomers that are not released were promised this generation's number. Skip it, so that their
  // relays never release them.
  generation_ =
      has_newcomers ? started_generation_ : std::max(generation_, started_generation_) + 1;
  publish.generation = generation_;
  for (const RankInfo& place : publish.ranks) {
    roster_.Release(publish.workers[static_cast<size_t>(place.rank)], place, generation_);
  }
  for (const WorkerId worker : round_.members()) {
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->record.generation == generation_) continue;
    roster_.Remove(worker);
    if (!process->is_told_to_end) roster_.SetLimit(worker, now_ + policy_.leave_limit);
  }
  std::vector<int> hosts;
  for (const HostShare& share : plan) hosts.push_back(share.host);
  registry_.PutFirst(hosts);
  round_ = Round(plan, publish.workers, now_);
  was_published_ = true;
  next_.ForgetTries();
  effects_.push_back(std::move(publish));
  Announce(std::move(changes), is_counted);
  AbandonJoin();
  target_.MarkChanged();
}

// Sends the due notice. The code is always "mixed": a worker that learns of the change by a failure
// never skips the broadcast of the state, and all workers have to do the same. docs/elastic.md,
// "The model".
void HorovodDriver::SendNotice() {
  if (state() != ElasticState::kCalling || !notices_.Take(now_)) return;
  const WorkerId rank_0 = round_.members().front();
  const Process* process = roster_.Living(rank_0);
  if (process == nullptr || !process->is_registered) return;
  effects_.push_back(
      effect::Notify{rank_0, process->host(), notices_.Timestamp(now_), UpdateCode::kMixed});
}

// A member failed by itself.
void HorovodDriver::MemberFailed(WorkerId worker) {
  const int host = roster_.Of(worker).host();
  const bool is_victim = Blame::IsAbort(*roster_.Of(worker).record.status) &&
                         (round_.is_broken() || round_.barrier().is_connecting());
  NoteFailure(worker);
  next_.DropPlan();
  if (!IsAnnounced(registry_, host)) {
    round_.Fail(now_);
    if (!round_.barrier().is_connecting() || !CanBeginAgain()) {
      // Victims of a peer get new workers on the same host.
      is_victim ? registry_.MoveToEnd(host) : registry_.Blacklist(host, now_);
      if (Blame::IsAbort(*roster_.Of(worker).record.status) && !is_victim) doubted_host_ = host;
    }
  }
  if (round_.blame().moment_by() && !round_.HasMembersElsewhere(roster_, host)) {
    return round_.blame().EvictAfterMoment(host);
  }
  StopWorkers(roster_.LivingOn(host), policy_.grace);
  BreakConnections();
}

// A newcomer ended or was given up before its release. The gang does not notice.
void HorovodDriver::NewcomerDied(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  const int host = process.host();
  const int tries = next_.CountTry(host, process.place.local_rank);
  const std::string what =
      process.record.status ? Describe(*process.record.status) : "did not arrive";
  target_.MarkChanged();
  if (IsAnnounced(registry_, host)) return;
  if (tries <= policy_.join_retries) {
    Say(fmt::format("{} {} before it joined; restarting it", Name(process.record), what));
    return;
  }
  Say(fmt::format("{} {} before it joined; excluding host {}", Name(process.record), what,
                  registry_.name(host)));
  next_.DropPlan();
  int members = 0;
  for (const WorkerId other : roster_.LivingOn(host)) members += GoesOn(roster_, other) ? 1 : 0;
  if (members > 0) {
    // The members there continue, but the host gets no more workers.
    registry_.Cap(host, members);
    return;
  }
  registry_.Blacklist(host, now_);
  StopWorkers(roster_.LivingOn(host), policy_.grace);
}

// Once per generation: closed connections stay closed, and no new ones are made.
void HorovodDriver::BreakConnections() {
  if (!policy_.breaks_connections || broken_generation_ == generation_) return;
  if (!round_.barrier().is_open() && CanBeginAgain()) return;  // All are stopped anyway.
  std::vector<int> hosts;
  for (const HostShare& share : round_.plan()) {
    const std::vector<WorkerId> living = roster_.LivingOn(share.host);
    const bool has_waiting = std::any_of(living.begin(), living.end(), [this](WorkerId worker) {
      return GoesOn(roster_, worker) && !roster_.Of(worker).is_parked;
    });
    if (has_waiting) hosts.push_back(share.host);
  }
  if (hosts.empty()) return;
  broken_generation_ = generation_;
  effects_.push_back(effect::BreakConnections{generation_, std::move(hosts)});
}

// Stops members that the others have waited for too long.
void HorovodDriver::StopStragglers() {
  for (const HostShare& share : std::vector(round_.plan())) {
    for (const WorkerId worker : roster_.LivingOn(share.host)) {
      if (!GoesOn(roster_, worker) || roster_.Of(worker).is_parked) continue;
      log_.NoteLeaving(registry_.name(share.host),
                       fmt::format("{} did not arrive within {}", Name(roster_.Of(worker).record),
                                   ShowDuration(policy_.straggler_timeout)));
      round_.Break(now_);
      if (!IsAnnounced(registry_, share.host)) {
        round_.Fail(now_);
        registry_.Blacklist(share.host, now_);
      }
      next_.DropPlan();
      StopWorkers(roster_.LivingOn(share.host), policy_.grace);
      break;
    }
  }
  target_.MarkChanged();
}

// A member ended before any peer saw its addresses, so a new process can take its rank without the
// waiting members noticing. Returns whether one was started.
bool HorovodDriver::Rejoin(WorkerId dead) {
  if (!has_barrier_ || round_.barrier().is_open()) return false;
  const Process& process = roster_.Of(dead);
  const RankInfo place = process.place;
  const wire::ExitStatus& status = *process.record.status;
  if (process.has_met) round_.barrier().Leave();
  if (!IsTraining(state()) || !round_.is_whole()) return false;
  if (status.is_success() && !process.is_told_to_end) return false;
  if (status.stage != wire::ExecStage::kNone) return false;
  // In the first generation a program that fails before any worker is in hvd.init() fails
  // everywhere. Later, a new rank 0 would broadcast a state that it does not have.
  const bool is_anybody_there = round_.barrier().limit().has_value();
  if (!has_begun() ? !is_anybody_there : place.rank == 0) return false;
  const bool is_there = !IsAnnounced(registry_, place.host_index) &&
                        Holds({{place.host_index, place.local_rank + 1}}, registry_);
  if (!is_there) return false;
  if (next_.CountTry(place.host_index, place.local_rank) > policy_.join_retries) return false;
  Say(fmt::format("{} {} before all workers had arrived; restarting it", Name(process.record),
                  Describe(status)));
  const WorkerId worker = roster_.Add(place, generation_, WorkerRoster::Role::kMember, now_);
  round_.Replace(place.rank, worker);
  round_.barrier().Extend(now_ + policy_.elastic_timeout);
  effects_.push_back(effect::StartWorkers{.generation = generation_,
                                          .workers = {{worker, place}},
                                          .restart_count = restarts_,
                                          .master_port = policy_.master_port});
  return true;
}

// While no gang has left hvd.init(), there is no state to lose: if no member can continue, all can
// be restarted. Once per job: a program that always dies there is not its hosts' fault.
bool HorovodDriver::CanBeginAgain() const {
  if (!has_barrier_ || has_begun() || was_begun_again_) return false;
  if (round_.done() > 0) return false;
  // Before they connect, a worker that died has had its second try.
  if (round_.barrier().is_open()) return round_.fell_apart();
  return round_.has_lost_host() && !round_.blame().first_failure();
}

void HorovodDriver::BeginAgain() {
  (void)next_.Abandon(roster_);
  if (roster_.counts().living > 0) {
    for (const int host : in_use_) StopWorkers(roster_.LivingOn(host), Duration::zero());
    return;
  }
  Retarget();
  if (!HasEnough(policy_.min_np)) return EnterShort();
  was_begun_again_ = true;
  Say(fmt::format("{}: no state to keep yet; restarting all workers", log_.FirstReason()));
  StartAll();
}

void HorovodDriver::EndByLostBarrier() {
  if (round_.done() > 0) return EndByDone();
  round_.Weigh(roster_);
  EndBy(LossCause(round_.blame().first_failure(), log_.FirstReason(), 0));
}

// Members that the others have waited for too long in hvd.init() get a second try.
void HorovodDriver::ExpireBarrier() {
  round_.barrier().Extend(now_ + policy_.elastic_timeout);
  std::vector<WorkerId> late;
  for (const WorkerId worker : round_.members()) {
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->has_met || process->is_told_to_end) continue;
    late.push_back(worker);
    const std::string what =
        fmt::format("{} did not reach hvd.init() within {}", Name(process->record),
                    ShowDuration(policy_.elastic_timeout));
    log_.NoteLeaving(registry_.name(process->host()), what);
    Say(what);
  }
  StopWorkers(late, Duration::zero());
}

// All members wait or have ended, and one has ended with success.
void HorovodDriver::EndByDone() {
  round_.Weigh(roster_);
  const int size = round_.size();
  if (round_.done() == size) return EndBy(SuccessCause());
  const WorkerRecord& winner = roster_.Of(round_.first_done()).record;
  if (policy_.success == SuccessRule::kAny) {
    Say(fmt::format("{} succeeded, and so does the job; {} of {} workers had not", Name(winner),
                    size - round_.done(), size));
    return EndBy(SuccessCause());
  }
  EndBy(PartialSuccessCause(winner, round_.blame().first_failure(), size - round_.done()));
}

}  // namespace hvdray
