// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/cause.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

// A different order alone is no reason to stop a gang.
bool IsSameMembership(HostPlan a, HostPlan b) {
  const auto by_host = [](const HostShare& x, const HostShare& y) { return x.host < y.host; };
  std::sort(a.begin(), a.end(), by_host);
  std::sort(b.begin(), b.end(), by_host);
  return a == b;
}

// Most of a leaving host's notice is for leaving with the next generation, which loses no step.
constexpr int kLeavesPerGrace = 6;
constexpr size_t kMostDiscoveryFailures = 10;
constexpr std::string_view kWhileConnecting = " while the gang was connecting";

// Lines that print it begin with the host already.
std::string ReasonOf(const Status& why, const std::string& host) {
  const std::string prefix = fmt::format("host {}: ", host);
  return why.message().starts_with(prefix) ? why.message().substr(prefix.size()) : why.message();
}

// A gang's workers never meet, and all are stopped after a loss.
ElasticPolicy Settled(ElasticPolicy policy) {
  const bool is_gang = policy.mode == ElasticMode::kGang;
  policy.repairs_barriers = policy.repairs_barriers && !is_gang;
  policy.breaks_connections = policy.breaks_connections && !is_gang;
  return policy;
}

}  // namespace

ElasticDriver::ElasticDriver(ElasticPolicy policy, uint64_t jitter_seed, TimePoint now,
                             StateChangeFn on_change)
    : JobDriver(
          {.grace = policy.grace, .timeout = policy.timeout, .stop_margin = policy.stop_margin},
          ElasticState::kGathering, now, on_change),
      policy_(Settled(policy)),
      registry_(policy.cooldown, jitter_seed),
      roster_(std::move(on_change), policy.first_worker),
      grace_(policy.grace) {
  generation_ = started_generation_ = policy.last_generation;
  state_deadline_ = now + policy.elastic_timeout;
}

std::vector<ElasticEffect> ElasticDriver::Handle(const ElasticEvent& event, TimePoint now) {
  return Take(now, [&] { std::visit([this](const auto& e) { On(e); }, event); });
}

std::optional<TimePoint> ElasticDriver::NextDeadline() const {
  if (IsTerminal(state())) return std::nullopt;
  std::optional<TimePoint> next = NextLimit();
  const auto add = [&next](const std::optional<TimePoint>& one) {
    if (one) next = next ? std::min(*next, *one) : *one;
  };
  if (state() == ElasticState::kStopping) return next;
  add(registry_.NextExpiry());
  if (const auto limit = registry_.NextConnectLimit()) add(limit->first);
  add(approach_.settle_deadline);
  add(approach_.next_notice);
  add(approach_.grow_at);
  add(approach_.straggler_deadline);
  add(round_.barrier.limit());
  add(round_.blame.moment_by());
  if (!approach_.limits.empty()) add(approach_.limits.begin()->first);
  for (const auto& [host, when] : approach_.clear_at) add(when);
  return next;
}

ElasticSnapshot ElasticDriver::Snapshot() const {
  return {.state = state(),
          .generation = generation_,
          .size = static_cast<int>(round_.members.size()),
          .counts = roster_.counts(),
          .slots_found = registry_.CountSlots(),
          .resets = restarts(),
          .stale_events = stale_events_};
}

void ElasticDriver::On(const event::HostsDiscovered& e) {
  has_discovered_ = true;
  is_source_final_ = e.is_final;
  discovery_failures_.clear();
  registry_.Update(e.hosts, now_);
  approach_.is_dirty = true;
}

void ElasticDriver::On(const event::DiscoveryFailed& e) {
  if (!has_discovered_) return EndBy(DiscoveryCause(e.why));
  // Each reason once, until hosts are found again; one that is always another, for a while.
  if (discovery_failures_.size() >= kMostDiscoveryFailures) return;
  if (!discovery_failures_.insert(e.why.message()).second) return;
  const bool is_last = discovery_failures_.size() == kMostDiscoveryFailures;
  Say(fmt::format("{}; {}", e.why.message(),
                  is_last ? "it keeps failing, and further reasons are in --events FILE"
                          : "the job continues with the hosts it knows"));
}

void ElasticDriver::On(const event::HostReady& e) {
  if (!registry_.MarkReady(e.host, e.facts.offered_port)) return Count(false);
  // With many connecting agents, looking at all hosts for each of them would cost quadratic time.
  const bool is_one_of_many = state() == ElasticState::kGathering && registry_.connecting() > 0 &&
                              (approach_.settle_deadline || registry_.ready_slots() < policy_.np);
  if (!is_one_of_many) approach_.is_dirty = true;
}

void ElasticDriver::On(const event::HostLost& e) {
  if (!registry_.IsKnown(e.host)) return Count(false);
  LoseHost(e.host,
           e.why.ok() ? Status(ErrorCode::kAgentLost, "the link to its agent closed") : e.why);
}

void ElasticDriver::On(const event::ProcessStarted& e) {
  Count(roster_.MarkStarted(e.worker, e.pid, now_));
}

void ElasticDriver::On(const event::ProcessExited& e) {
  const Process* process = roster_.Living(e.worker);
  if (process == nullptr) return Count(false);
  const bool is_ours = process->is_told_to_end;
  const WorkerRoster::Role role = process->role;
  roster_.MarkEnded(e.worker, e.status, /*was_stopping=*/is_ours, now_);
  approach_.is_dirty = true;
  if (is_ours) roster_.MarkVictim(e.worker);
  if (state() == ElasticState::kStopping) return;
  // A gang that restarts says it of all at once.
  if (is_ours && state() != ElasticState::kRestarting) {
    SayKilled(std::vector{roster_.Of(e.worker).record});
  }
  if (role == WorkerRoster::Role::kMember && Rejoin(e.worker)) return;
  if (is_ours) {
    // A worker given up in hvd.init() that can't be replaced is lost to the others like a failed
    // one.
    if (role == WorkerRoster::Role::kMember && policy_.repairs_barriers) NoteBroken();
    return;
  }
  switch (role) {
    case WorkerRoster::Role::kNewcomer:
      return NewcomerDied(e.worker);
    case WorkerRoster::Role::kRemoved:
      return;
    case WorkerRoster::Role::kMember:
      if (!e.status.is_success()) return MemberFailed(e.worker);
      if (++round_.done == 1) round_.first_done = e.worker;
      return;
  }
}

void ElasticDriver::On(const event::WorkerArrived& e) { Count(roster_.MarkArrived(e.worker)); }

void ElasticDriver::On(const event::RankAsked& e) {
  Count(roster_.MarkParked(e.worker));
  round_.barrier.NoteThrough(now_);
}

void ElasticDriver::On(const event::AddressesRegistered& e) {
  Count(roster_.MarkRegistered(e.worker));
  round_.barrier.NoteThrough(now_);
  // If a notice is pending for this worker, send it at once.
  const bool is_rank_0 = !round_.members.empty() && round_.members.front() == e.worker;
  if (approach_.next_notice && is_rank_0) approach_.next_notice = now_;
}

void ElasticDriver::On(const event::HostLeaving& e) {
  if (!registry_.MarkLeaving(e.host)) return Count(false);
  approach_.is_dirty = true;
  if (roster_.CountLivingOn(e.host) == 0) return;
  Say(fmt::format("host {} leaves in {}; moving its workers out of the job", registry_.name(e.host),
                  ShowDuration(std::max(e.in, Duration::zero()))));
  const Duration grace = std::min<Duration>(policy_.grace, e.in / kLeavesPerGrace);
  approach_.clear_at[e.host] = std::max(now_, now_ + e.in - grace);
}

void ElasticDriver::On(const event::GenerationStopped& e) {
  if (unstopped_.erase(e.host) == 0) return Count(false);
  in_use_.erase(e.host);
  ending_.swept += e.swept;
  registry_.OfferPort(e.host, e.offered_port);
  for (const WorkerId worker : roster_.LivingOn(e.host)) roster_.MarkLost(worker, now_);
}

void ElasticDriver::On(const event::Dismissed& e) {
  const bool is_first = ending_.cause.kind == CauseKind::kNone;
  EndBy(DismissedCause());
  grace_ = is_first ? e.grace : std::min(grace_, e.grace);
  if (state() == ElasticState::kStopping && !is_first) StopAll(grace_);
}

void ElasticDriver::Advance() {
  for (;;) {
    const ElasticState before = state();
    const CauseKind kind = ending_.cause.kind;
    Step();
    // A cause found just now has consequences, too.
    if (state() == before && ending_.cause.kind == kind) return;
  }
}

// Takes one step from the known facts.
void ElasticDriver::Step() {
  if (ending_.cause.kind != CauseKind::kNone && state() != ElasticState::kStopping &&
      !IsTerminal(state())) {
    // Processes left by a successful gang are not workers: they get no grace.
    const bool is_all_over = roster_.counts().living == 0;
    return StopAll(is_all_over ? Duration::zero() : grace_);
  }
  switch (state()) {
    case ElasticState::kGathering:
      return AdvanceGathering();
    case ElasticState::kRunning:
      return IsGang() ? AdvanceGang() : AdvanceTraining();
    case ElasticState::kJoining:
    case ElasticState::kCalling:
      return AdvanceTraining();
    case ElasticState::kMeeting:
    case ElasticState::kGate:
      return CloseRound();
    case ElasticState::kShort:
      return IsGang() ? AdvanceGathering() : CloseRound();
    case ElasticState::kRestarting:
      return AdvanceRestarting();
    case ElasticState::kStopping:
      if (unstopped_.empty()) Finish();
      return;
    case ElasticState::kFinished:
      return;
  }
}

void ElasticDriver::ExpireOthers() {
  if (state() == ElasticState::kStopping || IsTerminal(state())) return;
  if (registry_.Expire(now_) != UpdateCode::kNone) approach_.is_dirty = true;
  while (const auto limit = registry_.NextConnectLimit()) {
    if (limit->first > now_) break;
    GiveUp(limit->second,
           {ErrorCode::kDeadlineExceeded,
            fmt::format("its agent did not start within {}", ShowDuration(policy_.start_timeout))});
  }
  ExpireProcesses();
  Advance();
  SendNotice();
}

void ElasticDriver::ExpireProcesses() {
  while (!approach_.limits.empty() && approach_.limits.begin()->first <= now_) {
    const WorkerId worker = approach_.limits.begin()->second;
    approach_.limits.erase(approach_.limits.begin());
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->limit > now_) continue;
    if (process->is_told_to_end) {
      GiveUp(process->host(),
             {ErrorCode::kDeadlineExceeded, "it did not report that its workers ended"});
    } else if (process->role == WorkerRoster::Role::kNewcomer && !process->has_arrived) {
      Say(fmt::format("{} did not join within {}", Name(process->record),
                      ShowDuration(policy_.elastic_timeout)));
      StopWorkers(std::vector{worker}, Duration::zero());
      NewcomerDied(worker);
    } else if (process->role == WorkerRoster::Role::kRemoved) {
      StopWorkers(std::vector{worker}, policy_.grace);
    }
  }
  while (!approach_.clear_at.empty()) {
    const auto due = std::find_if(approach_.clear_at.begin(), approach_.clear_at.end(),
                                  [this](const auto& entry) { return entry.second <= now_; });
    if (due == approach_.clear_at.end()) break;
    const int host = due->first;
    approach_.clear_at.erase(due);
    ClearLeavingHost(host);
  }
  const auto is_due = [this](const std::optional<TimePoint>& limit) {
    return limit && now_ >= *limit;
  };
  if (is_due(round_.barrier.limit())) ExpireBarrier();
  if (is_due(round_.blame.moment_by())) ExpireMoment();
  if (is_due(approach_.straggler_deadline)) {
    approach_.straggler_deadline.reset();
    StopStragglers();
  }
}

void ElasticDriver::ExpireState() {
  if (state() == ElasticState::kStopping || state() == ElasticState::kRestarting) {
    return GiveUpUnstopped();
  }
  // kGathering and kShort; the other states have no limit.
  const bool is_first = state() == ElasticState::kGathering;
  EndBy(NoSlotsCause(is_first ? policy_.np : policy_.min_np, SizeOf(approach_.target),
                     policy_.elastic_timeout, true, is_first, last_loss_));
}

// From one generation to the next.

void ElasticDriver::AdvanceGathering() {
  const int needed = state() == ElasticState::kGathering ? policy_.np : policy_.min_np;
  if (approach_.settle_deadline && now_ >= *approach_.settle_deadline) approach_.is_dirty = true;
  Retarget();
  if (SizeOf(approach_.target) < needed) {
    approach_.settle_deadline.reset();
    if (has_discovered_) HasEnough(needed);
    return;
  }
  if (!approach_.settle_deadline) approach_.settle_deadline = now_ + policy_.settle;
  if (registry_.connecting() > 0 && now_ < *approach_.settle_deadline) return;
  approach_.settle_deadline.reset();
  StartAll();
}

// There are enough slots, or listed hosts may still bring them.
bool ElasticDriver::HasSlotsInSight(int needed) const {
  return SizeOf(approach_.target) >= needed || approach_.potential >= needed ||
         registry_.connecting() > 0 || registry_.NextExpiry().has_value();
}

// On false, ends the job if the missing slots can never come.
bool ElasticDriver::HasEnough(int needed) {
  const int found = SizeOf(approach_.target);
  if (found >= needed) return true;
  if (is_source_final_ && !HasSlotsInSight(needed))
    EndBy(NoSlotsCause(needed, found, policy_.elastic_timeout, false,
                       generation_ == policy_.last_generation, last_loss_));
  return false;
}

// Recomputes the target if hosts or slots have changed. Returns whether they had.
bool ElasticDriver::Retarget() {
  if (!std::exchange(approach_.is_dirty, false)) return false;
  ConnectHosts();
  approach_.target = PlanOf(registry_, roster_, policy_.max_np, Reach::kReady);
  if (IsSameMembership(approach_.target, round_.plan)) approach_.target = round_.plan;
  approach_.is_urgent =
      std::any_of(round_.plan.begin(), round_.plan.end(), [this](const HostShare& share) {
        return registry_.host(share.host).is_leaving && HasMemberThatGoesOn(roster_, share.host);
      });
  ReleaseHosts();
  return true;
}

void ElasticDriver::ConnectHosts() {
  const HostPlan wanted = PlanOf(registry_, roster_, policy_.max_np, Reach::kAll);
  approach_.potential = SizeOf(wanted);
  effects_.reserve(effects_.size() + wanted.size());
  for (const HostShare& share : wanted) {
    const HostRegistry::Host& host = registry_.host(share.host);
    if (host.agent != HostRegistry::Agent::kNone) continue;
    registry_.MarkConnecting(share.host, now_ + policy_.start_timeout);
    effects_.push_back(effect::ConnectHost{share.host, host.found});
  }
}

void ElasticDriver::ReleaseHosts() {
  for (int number = 0; number < registry_.size(); ++number) {
    const HostRegistry::Host& host = registry_.host(number);
    const bool may_return = host.is_listed && !host.is_leaving && host.cooldown_ends.has_value();
    if (host.agent == HostRegistry::Agent::kNone || host.is_available() || may_return) continue;
    if (roster_.CountLivingOn(number) > 0) continue;
    registry_.MarkGone(number);
    in_use_.erase(number);
    approach_.clear_at.erase(number);
    effects_.push_back(effect::ReleaseHost{number});
  }
}

// Called while no member waits for a rank and none is lost.
void ElasticDriver::AdvanceTraining() {
  const WorkerRoster::Counts& counts = roster_.counts();
  const bool is_over = round_.is_broken || counts.members == 0 || IsBarrierLost();
  if (counts.parked > 0 || is_over) return BeginMeeting();
  const bool has_changed = Retarget();
  if (!has_changed && state() == ElasticState::kRunning && round_.done == 0) return;
  const bool is_back = approach_.target == round_.plan;
  if (is_back || !Holds(next_.plan(), registry_)) next_.DropPlan();
  // When one member ends, the others are about to end, too: call no one.
  if (round_.done > 0 || is_back) return AbandonJoin();
  const bool is_warm = policy_.join == JoinMode::kWarm && !approach_.is_urgent;
  const bool is_enough = SizeOf(approach_.target) >= policy_.min_np;
  if (is_warm && is_enough) {
    if (!next_.has_plan()) next_.Prepare(approach_.target, registry_);
    if (has_changed) StartMissingWorkers();
    if (!IsNextMet()) {
      SetBell(false);
      return Enter(ElasticState::kJoining);
    }
  }
  Enter(ElasticState::kCalling);
  SetBell(true);
}

void ElasticDriver::AbandonJoin() {
  SetBell(false);
  StopWorkers(next_.Abandon(roster_), Duration::zero());
  Enter(ElasticState::kRunning);
}

void ElasticDriver::BeginMeeting() {
  log_.NoteStandstill(now_);
  SetBell(false);
  round_.barrier.GiveUp();
  Enter(ElasticState::kMeeting);
  if (policy_.straggler_timeout > Duration::zero()) {
    approach_.straggler_deadline = now_ + policy_.straggler_timeout;
  }
}

// Publishes only once every old process is parked or reaped: a stale worker could otherwise take a
// rank of the new generation.
void ElasticDriver::CloseRound() {
  if (!round_.barrier.is_open() && CanBeginAgain()) return BeginAgain();
  if (IsBarrierLost()) return EndByLostBarrier();
  const WorkerRoster::Counts& counts = roster_.counts();
  if (counts.unsettled > 0) {
    Retarget();  // Lets agents of spare hosts start meanwhile.
    return;
  }
  approach_.straggler_deadline.reset();
  if (round_.done > 0) return EndByDone();
  if (counts.staying == 0) {
    if (CanBeginAgain()) {
      Retarget();
      // A failure on the last hosts ends the job with its exit code; no other host is awaited.
      if (!round_.blame.first_failure() || HasSlotsInSight(policy_.min_np)) return BeginAgain();
    }
    ChooseCulprit();
    Cause cause = LossCause(round_.blame.first_failure(), log_.FirstReason(), 0);
    return EndBy(round_.fell_apart ? WhileConnecting(std::move(cause)) : std::move(cause));
  }
  if (round_.has_failures && policy_.reset_limit && resets_ >= *policy_.reset_limit) {
    return EndBy(ResetLimitCause(*policy_.reset_limit));
  }
  Regroup();
}

// Called once all living members wait for a rank.
void ElasticDriver::Regroup() {
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
  if (!HasEnough(policy_.min_np)) return EnterShort();
  if (!has_state(approach_.target)) return EndBy(NoCommonHostCause());
  if (!is_possible) next_.Prepare(approach_.target, registry_);
  if (IsNextMet()) return Publish(next_.plan());
  const std::optional<HostPlan> survivors = Survivors(approach_.target, roster_);
  const bool can_go_on = survivors && SizeOf(*survivors) >= policy_.min_np;
  if (policy_.join == JoinMode::kWarm && can_go_on) return Publish(*survivors);
  StartMissingWorkers();
  Enter(ElasticState::kGate);
}

void ElasticDriver::EnterShort() {
  if (state() == ElasticState::kShort || ending_.cause.kind != CauseKind::kNone) return;
  next_.DropPlan();
  Enter(ElasticState::kShort);
  state_deadline_ = now_ + policy_.elastic_timeout;
  Say(fmt::format("{} of at least {} slots available; waiting up to {} for more",
                  SizeOf(approach_.target), policy_.min_np, ShowDuration(policy_.elastic_timeout)));
}

// Stops newcomers that were promised another place, and starts the missing workers of the next
// generation.
void ElasticDriver::StartMissingWorkers() {
  const Generation number = generation_ + 1;
  StopWorkers(next_.Misplaced(roster_, number), Duration::zero());
  effect::StartWorkers start{.generation = number,
                             .workers = next_.StartMissing(roster_, number, now_),
                             .restart_count = restarts_,
                             .master_port = policy_.master_port};
  if (start.workers.empty()) return;
  for (const NewWorker& one : start.workers) {
    in_use_.insert(one.place.host_index);
    Watch(one.worker, now_ + policy_.elastic_timeout);
  }
  started_generation_ = number;
  effects_.push_back(std::move(start));
}

// A round that only restores what failures took is not counted, nor are hosts that leave with
// notice.
bool ElasticDriver::IsCounted(const HostPlan& plan, const std::vector<HostChange>& changes) const {
  if (round_.has_failures) return true;
  const bool has_left = std::any_of(changes.begin(), changes.end(),
                                    [](const HostChange& c) { return c.workers < 0; });
  const bool has_joined = std::any_of(changes.begin(), changes.end(),
                                      [](const HostChange& c) { return c.workers > 0; });
  if (has_joined && !has_left) return SizeOf(plan) > approach_.refill_to;
  if (!has_left || has_joined) return true;
  return std::any_of(round_.plan.begin(), round_.plan.end(), [&](const HostShare& share) {
    const bool stays_whole = std::any_of(plan.begin(), plan.end(), [&](const HostShare& s) {
      return s.host == share.host && s.count >= share.count;
    });
    return !stays_whole && !registry_.host(share.host).is_leaving;
  });
}

// By value: `plan` may belong to next_, which is reset here.
void ElasticDriver::Publish(HostPlan plan) {
  std::vector<HostChange> changes = ChangesBetween(round_.plan, plan, registry_);
  const bool is_counted = IsCounted(plan, changes);
  if (is_counted && policy_.reset_limit && resets_ >= *policy_.reset_limit) {
    return EndBy(ResetLimitCause(*policy_.reset_limit));
  }
  resets_ += is_counted ? 1 : 0;
  NoteRefill(SizeOf(plan));
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
  for (const WorkerId worker : round_.members) {
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->record.generation == generation_) continue;
    roster_.Remove(worker);
    if (!process->is_told_to_end) Watch(worker, now_ + policy_.leave_limit);
  }
  std::vector<int> hosts;
  for (const HostShare& share : plan) hosts.push_back(share.host);
  registry_.PutFirst(hosts);
  BeginRound(plan, publish.workers);
  has_begun_ = true;
  next_.ForgetTries();
  effects_.push_back(std::move(publish));
  Announce(std::move(changes), is_counted);
  AbandonJoin();
  approach_.is_dirty = true;
}

void ElasticDriver::BeginRound(const HostPlan& plan, const std::vector<WorkerId>& members) {
  round_ = {.plan = plan,
            .members = members,
            .barrier = InitBarrier(static_cast<int>(members.size())),
            .blame = Blame(now_)};
}

// `size`: of the generation that follows this round.
void ElasticDriver::NoteRefill(int size) {
  const int old_size = static_cast<int>(round_.members.size());
  if (round_.has_failures) approach_.refill_to = std::max(approach_.refill_to, old_size);
  if (size >= approach_.refill_to) approach_.refill_to = 0;
}

// The first generation, or a gang's next one: all workers are new members.
void ElasticDriver::StartAll() {
  const HostPlan plan = approach_.target;
  std::vector<HostChange> changes = ChangesBetween(round_.plan, plan, registry_);
  started_generation_ = ++generation_;
  const uint16_t offered = registry_.host(plan.front().host).offered_port;
  effect::PublishGeneration publish{.generation = generation_, .ranks = RanksOf(plan, registry_)};
  effect::StartWorkers start{
      .generation = generation_,
      .workers = {},
      .restart_count = restarts_,
      .master_port = policy_.master_port != 0 ? policy_.master_port : offered};
  for (const RankInfo& place : publish.ranks) {
    const WorkerId worker = roster_.Add(place, generation_, WorkerRoster::Role::kMember, now_);
    publish.workers.push_back(worker);
    start.workers.push_back({worker, place});
    in_use_.insert(place.host_index);
  }
  NoteRefill(SizeOf(plan));
  BeginRound(plan, publish.workers);
  effects_.push_back(std::move(publish));
  effects_.push_back(std::move(start));
  Announce(std::move(changes), std::exchange(is_change_counted_, false));
  Enter(ElasticState::kRunning);
}

// For a host that lost slots without a failure.
std::string ElasticDriver::WhyFewer(const std::string& name) const {
  const HostRegistry::Host* host = registry_.Find(name);
  if (host == nullptr || host->is_available()) return "it has fewer slots now";
  return host->is_leaving ? "it was told to leave" : "discovery no longer lists it";
}

void ElasticDriver::Announce(std::vector<HostChange> changes, bool is_counted) {
  effect::MembershipChanged change = log_.Close({.generation = generation_,
                                                 .size = static_cast<int>(round_.members.size()),
                                                 .changes = std::move(changes),
                                                 .stood_still = Duration::zero(),
                                                 .is_counted = is_counted},
                                                now_);
  for (HostChange& host : change.changes) {
    if (host.workers < 0 && host.why.empty()) host.why = WhyFewer(host.host);
  }
  if (generation_ > policy_.last_generation + 1) {
    effect::MembershipChanged news = change;
    for (HostChange& host : news.changes) {
      if (host.why == told_failure_) host.why.clear();
    }
    Say(MembershipLine(news));
  }
  told_failure_.clear();
  effects_.push_back(std::move(change));
}

void ElasticDriver::SetBell(bool is_on) {
  if (!is_on) {
    approach_.next_notice.reset();
  } else if (!approach_.next_notice) {
    approach_.next_notice = now_;
  }
}

// Sends the due notice. The code is always "mixed": a worker that learns of the change by a failure
// never skips the broadcast of the state, and all workers have to do the same. docs/elastic.md,
// "The model".
void ElasticDriver::SendNotice() {
  if (!approach_.next_notice || now_ < *approach_.next_notice) return;
  approach_.next_notice = now_ + policy_.notice_interval;
  const WorkerId rank_0 = round_.members.front();
  const Process* process = roster_.Living(rank_0);
  if (process == nullptr || !process->is_registered) return;
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(now_ - begun_).count();
  last_timestamp_ = std::max(policy_.began_epoch_s + elapsed, last_timestamp_ + 1);
  effects_.push_back(effect::Notify{rank_0, process->host(), last_timestamp_, UpdateCode::kMixed});
}

// Members and newcomers that end early: the consequences, and the culprit.

bool ElasticDriver::IsAnnounced(int host) const {
  const HostRegistry::Host& entry = registry_.host(host);
  return entry.is_leaving || !entry.is_listed;
}

// A member failed by itself.
void ElasticDriver::MemberFailed(WorkerId worker) {
  const WorkerRecord& record = roster_.Of(worker).record;
  const int host = roster_.Of(worker).host();
  const bool is_abort = Blame::IsAbort(*record.status);
  const bool was_broken = round_.is_broken;
  NoteBroken();
  const bool is_victim = is_abort && (was_broken || round_.barrier.is_connecting());
  round_.blame.NoteFailed(roster_, worker, was_broken, round_.fell_apart);
  log_.NoteLeaving(registry_.name(host),
                   fmt::format("{} {}{}", Name(record), Describe(*record.status),
                               round_.fell_apart && !is_abort ? kWhileConnecting : ""));
  log_.NoteStandstill(now_);
  // The first member to end need not be the first to fail.
  const bool may_wait = policy_.moment > Duration::zero() && !IsPlainCrash(record) &&
                        record.status->stage == wire::ExecStage::kNone && !round_.fell_apart;
  if (may_wait) round_.blame.BeginMoment(now_, policy_.moment);
  if (IsGang()) return;
  next_.DropPlan();
  if (!IsAnnounced(host)) {
    round_.has_failures = true;
    if (!round_.barrier.is_connecting() || !CanBeginAgain()) {
      // Victims of a peer get new workers on the same host.
      is_victim ? registry_.MoveToEnd(host) : MarkFailed(host);
    }
  }
  if (round_.blame.moment_by() && !HasMembersElsewhere(host)) {
    return round_.blame.EvictAfterMoment(host);
  }
  Evict(host);
  BreakConnections();
}

bool ElasticDriver::HasMembersElsewhere(int host) const {
  return std::any_of(round_.plan.begin(), round_.plan.end(), [&](const HostShare& share) {
    return share.host != host && HasMemberThatGoesOn(roster_, share.host) &&
           !round_.blame.to_evict().contains(share.host);
  });
}

void ElasticDriver::ExpireMoment() {
  if (!round_.blame.EndMoment(roster_, round_.members, now_, policy_.moment)) return;
  for (const int host : round_.blame.to_evict()) Evict(host);
  approach_.is_dirty = true;
}

// A newcomer ended or was given up before its release. The gang does not notice.
void ElasticDriver::NewcomerDied(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  const int host = process.host();
  const int tries = next_.CountTry(host, process.place.local_rank);
  const std::string what =
      process.record.status ? Describe(*process.record.status) : "did not arrive";
  approach_.is_dirty = true;
  if (IsAnnounced(host)) return;
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
  MarkFailed(host);
  Evict(host);
}

void ElasticDriver::LoseHost(int host, const Status& why) {
  const bool was_there = registry_.MarkGone(host);
  Count(was_there);
  if (!was_there) return;
  in_use_.erase(host);
  approach_.clear_at.erase(host);
  approach_.is_dirty = true;
  int members = 0;
  for (const WorkerId worker : roster_.LivingOn(host)) {
    members += GoesOn(roster_, worker) ? 1 : 0;
    roster_.MarkLost(worker, now_);
  }
  const bool was_unstopped = unstopped_.erase(host) > 0;
  if (state() == ElasticState::kStopping) {
    // The output of a successful worker may be lost with it.
    if (was_unstopped && ending_.cause.kind == CauseKind::kSuccess) {
      EndBy(UnreportedCause(Status(why).WithContext(fmt::format("host {}", registry_.name(host)))));
    }
    return;
  }
  const bool is_blamed = !IsAnnounced(host);
  if (is_blamed) MarkFailed(host);
  const std::string& name = registry_.name(host);
  if (members == 0) {
    if (is_blamed) Say(fmt::format("excluding host {}: {}", name, ReasonOf(why, name)));
    return;
  }
  last_loss_ = fmt::format("host {}: {}", name, ReasonOf(why, name));
  log_.NoteLeaving(name, ReasonOf(why, name));
  log_.NoteStandstill(now_);
  NoteBroken();
  round_.has_lost_host = true;
  if (round_.blame.ForgiveAborted(roster_, round_.fell_apart)) log_.NoteCause(registry_.name(host));
  round_.has_failures |= is_blamed;
  next_.DropPlan();
  BreakConnections();
}

void ElasticDriver::GiveUp(int host, const Status& why) {
  effects_.push_back(effect::ReleaseHost{host});
  LoseHost(host, why);
}

void ElasticDriver::MarkFailed(int host) {
  registry_.Blacklist(host, now_);
  approach_.is_dirty = true;
}

// If one worker of a host has failed, the others end, too: the host is left out as a whole.
void ElasticDriver::Evict(int host) { StopWorkers(roster_.LivingOn(host), policy_.grace); }

void ElasticDriver::StopWorkers(std::span<const WorkerId> workers, Duration grace) {
  effect::StopWorkers stop{.workers = {}, .grace = grace};
  for (const WorkerId worker : workers) {
    if (!roster_.MarkToldToEnd(worker, grace, now_)) continue;
    Watch(worker, now_ + grace + policy_.stop_margin);
    stop.workers.push_back(worker);
  }
  if (!stop.workers.empty()) effects_.push_back(std::move(stop));
}

void ElasticDriver::Watch(WorkerId worker, TimePoint limit) {
  roster_.SetLimit(worker, limit);
  approach_.limits.emplace(limit, worker);
}

// Once per generation: closed connections stay closed, and no new ones are made.
void ElasticDriver::BreakConnections() {
  if (!policy_.breaks_connections || round_.is_break_ordered) return;
  if (!round_.barrier.is_open() && CanBeginAgain()) return;  // All are stopped anyway.
  std::vector<int> hosts;
  for (const HostShare& share : round_.plan) {
    const std::vector<WorkerId> living = roster_.LivingOn(share.host);
    const bool has_waiting = std::any_of(living.begin(), living.end(), [this](WorkerId worker) {
      return GoesOn(roster_, worker) && !roster_.Of(worker).is_parked;
    });
    if (has_waiting) hosts.push_back(share.host);
  }
  if (hosts.empty()) return;
  round_.is_break_ordered = true;
  effects_.push_back(effect::BreakConnections{generation_, std::move(hosts)});
}

// Stops members that the others have waited for too long.
void ElasticDriver::StopStragglers() {
  for (const HostShare& share : std::vector(round_.plan)) {
    for (const WorkerId worker : roster_.LivingOn(share.host)) {
      if (!GoesOn(roster_, worker) || roster_.Of(worker).is_parked) continue;
      log_.NoteLeaving(registry_.name(share.host),
                       fmt::format("{} did not arrive within {}", Name(roster_.Of(worker).record),
                                   ShowDuration(policy_.straggler_timeout)));
      NoteBroken();
      if (!IsAnnounced(share.host)) {
        round_.has_failures = true;
        MarkFailed(share.host);
      }
      next_.DropPlan();
      Evict(share.host);
      break;
    }
  }
  approach_.is_dirty = true;
}

// A leaving host's notice time is over but for the grace.
void ElasticDriver::ClearLeavingHost(int host) {
  const std::vector<WorkerId> living = roster_.LivingOn(host);
  const bool has_members =
      std::any_of(living.begin(), living.end(), [this](WorkerId w) { return GoesOn(roster_, w); });
  Evict(host);
  approach_.is_dirty = true;
  if (!has_members) return;
  NoteBroken();
  next_.DropPlan();
  BreakConnections();
}

// The init barrier of a generation: restarts a member that dies in hvd.init() before any peer has
// seen its addresses; if that is impossible, ends the round, so that no member waits for good.

void ElasticDriver::On(const event::WorkerMet& e) {
  const bool is_news = policy_.repairs_barriers && roster_.MarkMet(e.worker);
  Count(is_news);
  if (!is_news) return;
  const bool can_open = IsTraining(state()) && !round_.is_broken && round_.done == 0;
  if (!round_.barrier.Meet(now_ + policy_.elastic_timeout, can_open)) return;
  effects_.push_back(effect::OpenBarrier{generation_});
}

void ElasticDriver::On(const event::WorkerConnected& e) {
  const bool is_news = policy_.repairs_barriers && roster_.MarkConnected(e.worker);
  Count(is_news);
  if (is_news) round_.barrier.Connect(now_);
}

// A member is lost or being stopped.
void ElasticDriver::NoteBroken() {
  if (round_.is_broken) return;
  round_.is_broken = true;
  const bool is_through = round_.barrier.IsThrough(now_);
  round_.fell_apart = round_.barrier.is_open() && !is_through;
  has_begun_ |= is_through;
}

// A member ended before any peer saw its addresses, so a new process can take its rank without the
// waiting members noticing. Returns whether one was started.
bool ElasticDriver::Rejoin(WorkerId dead) {
  if (!policy_.repairs_barriers || round_.barrier.is_open()) return false;
  const Process& process = roster_.Of(dead);
  const RankInfo place = process.place;
  const wire::ExitStatus& status = *process.record.status;
  if (process.has_met) round_.barrier.Leave();
  if (!IsTraining(state()) || round_.is_broken || round_.done > 0) return false;
  if (status.is_success() && !process.is_told_to_end) return false;
  if (status.stage != wire::ExecStage::kNone) return false;
  // In the first generation a program that fails before any worker is in hvd.init() fails
  // everywhere. Later, a new rank 0 would broadcast a state that it does not have.
  const bool is_anybody_there = round_.barrier.limit().has_value();
  if (!has_begun_ ? !is_anybody_there : place.rank == 0) return false;
  const bool is_there = !IsAnnounced(place.host_index) &&
                        Holds({{place.host_index, place.local_rank + 1}}, registry_);
  if (!is_there) return false;
  if (next_.CountTry(place.host_index, place.local_rank) > policy_.join_retries) return false;
  Say(fmt::format("{} {} before all workers had arrived; restarting it", Name(process.record),
                  Describe(status)));
  const WorkerId worker = roster_.Add(place, generation_, WorkerRoster::Role::kMember, now_);
  round_.members[static_cast<size_t>(place.rank)] = worker;
  round_.barrier.Extend(now_ + policy_.elastic_timeout);
  effects_.push_back(effect::StartWorkers{.generation = generation_,
                                          .workers = {{worker, place}},
                                          .restart_count = restarts_,
                                          .master_port = policy_.master_port});
  return true;
}

// A member waits for one that will never come. Horovod can't recover there: the waiting worker has
// no connection yet whose end would make it retry.
bool ElasticDriver::IsBarrierLost() const {
  if (!policy_.repairs_barriers || round_.barrier.is_open()) return false;
  if (round_.barrier.met() == 0) return false;
  return round_.is_broken || round_.done > 0;
}

// While no gang has left hvd.init(), there is no state to lose: if no member can continue, all can
// be restarted. Once per job: a program that always dies there is not its hosts' fault.
bool ElasticDriver::CanBeginAgain() const {
  if (!policy_.repairs_barriers || has_begun_ || was_begun_again_) return false;
  if (round_.done > 0) return false;
  // Before they connect, a worker that died has had its second try.
  if (round_.barrier.is_open()) return round_.fell_apart;
  return round_.has_lost_host && !round_.blame.first_failure();
}

void ElasticDriver::BeginAgain() {
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

void ElasticDriver::EndByLostBarrier() {
  if (round_.done > 0) return EndByDone();
  ChooseCulprit();
  EndBy(LossCause(round_.blame.first_failure(), log_.FirstReason(), 0));
}

// Members that the others have waited for too long in hvd.init() get a second try.
void ElasticDriver::ExpireBarrier() {
  round_.barrier.Extend(now_ + policy_.elastic_timeout);
  std::vector<WorkerId> late;
  for (const WorkerId worker : round_.members) {
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

// How an elastic job ends, and how gang mode restarts.

// All members wait or have ended, and one has ended with success.
void ElasticDriver::EndByDone() {
  ChooseCulprit();
  const int size = static_cast<int>(round_.members.size());
  if (round_.done == size) return EndBy(SuccessCause());
  const WorkerRecord& winner = roster_.Of(round_.first_done).record;
  if (policy_.success == SuccessRule::kAny) {
    Say(fmt::format("{} succeeded, and so does the job; {} of {} workers had not", Name(winner),
                    size - round_.done, size));
    return EndBy(SuccessCause());
  }
  EndBy(PartialSuccessCause(winner, round_.blame.first_failure(), size - round_.done));
}

// A gang that could go on is restarted only for slots that have been listed for --settle: a host
// that flaps would restart it each time.
bool ElasticDriver::IsDueForChange() {
  // Hosts that join one after the other count as one change.
  const bool is_joining = registry_.connecting() > 0 && !approach_.is_urgent;
  if (round_.done > 0 || approach_.target == round_.plan || is_joining) return false;
  if (!Holds(round_.plan, registry_)) return true;
  TimePoint steady_at = now_;
  for (const HostShare& share : approach_.target) {
    const bool is_more = std::none_of(
        round_.plan.begin(), round_.plan.end(),
        [&](const HostShare& s) { return s.host == share.host && s.count >= share.count; });
    if (!is_more) continue;
    steady_at = std::max(steady_at, registry_.host(share.host).listed_since + policy_.list_settle);
  }
  if (steady_at > now_) approach_.grow_at = steady_at;
  return steady_at <= now_;
}

// Of a gang that restarts, but not after a worker's failure. On false, the job ends in its place.
bool ElasticDriver::CountChange() {
  const auto changes = ChangesBetween(round_.plan, approach_.target, registry_);
  is_change_counted_ = IsCounted(approach_.target, changes);
  if (!is_change_counted_) return true;
  if (policy_.reset_limit && resets_ >= *policy_.reset_limit) {
    EndBy(ResetLimitCause(*policy_.reset_limit));
    return false;
  }
  ++resets_;
  return true;
}

void ElasticDriver::AdvanceGang() {
  approach_.grow_at.reset();
  if (round_.is_broken) {
    if (round_.blame.moment_by() && roster_.counts().living > 0) return;
    ChooseCulprit();
    const std::optional<WorkerRecord>& failed = round_.blame.first_failure();
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
    if (round_.done == static_cast<int>(round_.members.size())) return EndBy(SuccessCause());
    Retarget();
    if (!IsDueForChange() || !CountChange()) return;
  }
  log_.NoteStandstill(now_);
  StopAll(policy_.grace);
}

void ElasticDriver::AdvanceRestarting() {
  if (!unstopped_.empty()) return;
  SayKilled(roster_.Records(round_.members));
  round_.is_broken = false;
  Retarget();
  if (SizeOf(approach_.target) >= policy_.min_np) return StartAll();
  HasEnough(policy_.min_np);
  EnterShort();
}

// Stops the workers on all hosts in use. May be repeated with less grace.
void ElasticDriver::StopAll(Duration grace) {
  const bool is_end = ending_.cause.kind != CauseKind::kNone;
  unstopped_ = in_use_;
  if (is_end && in_use_.empty()) return Finish();
  if (is_end) SetBell(false);
  const ElasticState to = is_end ? ElasticState::kStopping : ElasticState::kRestarting;
  if (state() != to) ending_.since = now_;
  Enter(to);
  LimitStop(grace);
  for (const int host : in_use_) {
    for (const WorkerId worker : roster_.LivingOn(host)) {
      roster_.MarkToldToEnd(worker, grace, now_);
    }
  }
  if (in_use_.empty()) return;
  effects_.push_back(effect::StopGeneration{
      std::max(generation_, started_generation_), {in_use_.begin(), in_use_.end()}, grace});
}

void ElasticDriver::GiveUpUnstopped() {
  const std::set<int> hosts = unstopped_;
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const int host : hosts) names.push_back(registry_.name(host));
  const Status error = GiveUpCause(names).error;
  for (const int host : hosts) GiveUp(host, error);
  if (state() == ElasticState::kStopping) EndBy(UnreportedCause(error));
}

void ElasticDriver::Finish() {
  Verdict verdict = Close();
  const Culprit& culprit = round_.blame.culprit();
  verdict.first_failure = round_.blame.first_failure();
  verdict.is_first_certain = culprit.index < 0 || culprit.is_certain;
  verdict.evidence = culprit.evidence;
  verdict.workers = roster_.Records(round_.members);
  verdict.restarts = restarts();
  effects_.push_back(effect::Finish{std::move(verdict)});
}

}  // namespace hvdray
