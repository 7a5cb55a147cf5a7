// How an elastic job goes from one generation to the next.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/gang_cause.h"

namespace hvdray {
namespace {

// Another order alone is no reason to stop a gang.
bool IsSameMembership(HostPlan a, HostPlan b) {
  const auto by_host = [](const HostShare& x, const HostShare& y) { return x.host < y.host; };
  std::sort(a.begin(), a.end(), by_host);
  std::sort(b.begin(), b.end(), by_host);
  return a == b;
}

}  // namespace

void ElasticDriver::AdvanceGathering() {
  const int needed = state_ == ElasticState::kGathering ? policy_.np : policy_.min_np;
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

// False also ends the job when the missing slots can never come.
bool ElasticDriver::HasEnough(int needed) {
  const int found = SizeOf(approach_.target);
  if (found >= needed) return true;
  const bool can_come = !is_source_final_ || approach_.potential >= needed ||
                        registry_.connecting() > 0 || registry_.NextExpiry().has_value();
  if (!can_come)
    EndBy(EndByNoSlots(needed, found, policy_.elastic_timeout, false, generation_ == 0));
  return false;
}

// Looks at the hosts again, if anything has changed. Returns whether it had.
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

// No member waits for a rank and none is lost.
void ElasticDriver::AdvanceTraining() {
  const ElasticRoster::Counts& counts = roster_.counts();
  const bool is_over = round_.is_broken || counts.members == 0 || IsMeetingLost();
  if (counts.parked > 0 || is_over) return BeginMeeting();
  const bool has_changed = Retarget();
  if (!has_changed && state_ == ElasticState::kRunning && round_.done == 0) return;
  std::optional<ElasticNext>& next = approach_.next;
  const bool is_back = approach_.target == round_.plan;
  if (next && (is_back || !Holds(next->plan, registry_))) next.reset();
  // Who sees others end is about to end too: nobody is called then.
  if (round_.done > 0 || (is_back && !next)) return AbandonJoin();
  const bool is_warm = policy_.join == JoinMode::kWarm && !approach_.is_urgent;
  const bool is_enough = SizeOf(approach_.target) >= policy_.min_np;
  if (is_warm && is_enough) {
    if (!next) Prepare(approach_.target);
    if (has_changed) Staff();
    if (!IsNextMet()) {
      SetBell(false);
      return Enter(ElasticState::kJoining);
    }
  }
  Enter(ElasticState::kCalling);
  SetBell(true);
}

void ElasticDriver::AbandonJoin() {
  approach_.next.reset();
  SetBell(false);
  std::vector<WorkerId> abandoned;
  for (const WorkerId worker : std::exchange(approach_.newcomers, {})) {
    const Process* process = roster_.Living(worker);
    const bool is_let_in = process == nullptr || process->role != ElasticRoster::Role::kNewcomer;
    if (!is_let_in) abandoned.push_back(worker);
  }
  StopWorkers(abandoned, Duration::zero());
  Enter(ElasticState::kRunning);
}

void ElasticDriver::BeginMeeting() {
  log_.NoteStandstill(now_);
  SetBell(false);
  round_.meet_by.reset();
  Enter(ElasticState::kMeeting);
  if (policy_.straggler_timeout > Duration::zero()) {
    approach_.straggler_deadline = now_ + policy_.straggler_timeout;
  }
}

// Every old process must be parked or reaped before a new generation is published (spec 3.11
// row 4).
void ElasticDriver::CloseRound() {
  if (!round_.is_open && CanBeginAgain()) return BeginAgain();
  if (IsMeetingLost()) return EndByLostMeeting();
  const ElasticRoster::Counts& counts = roster_.counts();
  if (counts.unsettled > 0) {
    Retarget();  // Agents of spare hosts can start meanwhile.
    return;
  }
  approach_.straggler_deadline.reset();
  if (round_.done > 0) return EndByDone();
  if (counts.staying == 0) {
    if (CanBeginAgain()) return BeginAgain();
    ChooseCulprit();
    ElasticCause cause = EndByFailure(round_.first_failure, log_.FirstReason(), 0);
    return EndBy(round_.fell_apart ? WhileConnecting(std::move(cause)) : std::move(cause));
  }
  if (round_.has_failures && policy_.reset_limit && resets_ >= *policy_.reset_limit) {
    return EndBy(EndByResetLimit(*policy_.reset_limit));
  }
  Regroup();
}

// All members that live wait for a rank.
void ElasticDriver::Regroup() {
  const bool has_changed = Retarget();
  std::optional<ElasticNext>& next = approach_.next;
  // Rank 0 broadcasts the state: it must have one.
  const auto has_state = [this](const HostPlan& plan) {
    return HasMemberThatGoesOn(roster_, plan.front().host);
  };
  if (next && (!Holds(next->plan, registry_) || !has_state(next->plan))) next.reset();
  if (next && IsNextMet()) return Publish(next->plan);
  const bool is_waiting = state_ == ElasticState::kGate || state_ == ElasticState::kShort;
  if (is_waiting && !has_changed) return;
  if (!HasEnough(policy_.min_np)) return EnterShort();
  if (!has_state(approach_.target)) return EndBy(EndByNoCommonHost());
  if (!next) Prepare(approach_.target);
  if (IsNextMet()) return Publish(next->plan);
  const std::optional<HostPlan> survivors = SurvivorsOf(approach_.target, roster_);
  const bool can_go_on = survivors && SizeOf(*survivors) >= policy_.min_np;
  if (policy_.join == JoinMode::kWarm && can_go_on) return Publish(*survivors);
  Staff();
  Enter(ElasticState::kGate);
}

void ElasticDriver::EnterShort() {
  if (state_ == ElasticState::kShort) return;
  approach_.next.reset();
  Enter(ElasticState::kShort);
  state_deadline_ = now_ + policy_.elastic_timeout;
  Say(fmt::format("{} of at least {} slots are there: waiting for more, for up to {}",
                  SizeOf(approach_.target), policy_.min_np, ShowDuration(policy_.elastic_timeout)));
}

void ElasticDriver::Prepare(const HostPlan& plan) {
  approach_.next = ElasticNext{plan, RanksOf(plan, registry_)};
}

// Starts who is missing in the next generation; newcomers that were promised another place end.
void ElasticDriver::Staff() {
  const std::vector<RankInfo>& ranks = approach_.next->ranks;
  std::vector<WorkerId> misplaced;
  for (const WorkerId worker : approach_.newcomers) {
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->is_told_to_end) continue;
    const auto rank = static_cast<size_t>(process->place.rank);
    const bool is_in_place = rank < ranks.size() && ranks[rank] == process->place &&
                             process->record.generation == generation_ + 1;
    if (!is_in_place) misplaced.push_back(worker);
  }
  StopWorkers(misplaced, Duration::zero());
  std::erase_if(approach_.newcomers, [this](WorkerId w) { return roster_.Living(w) == nullptr; });
  effect::StartWorkers start{.generation = generation_ + 1,
                             .workers = {},
                             .restart_count = restarts_,
                             .master_port = policy_.master_port};
  for (const RankInfo& place : ranks) {
    // Whoever lives there still has to end first.
    if (roster_.On(place.host_index, place.local_rank) != kNoWorker) continue;
    const WorkerId worker =
        roster_.Add(place, start.generation, ElasticRoster::Role::kNewcomer, now_);
    approach_.newcomers.push_back(worker);
    in_use_.insert(place.host_index);
    Watch(worker, now_ + policy_.elastic_timeout);
    start.workers.push_back({worker, place});
  }
  if (start.workers.empty()) return;
  started_generation_ = start.generation;
  effects_.push_back(std::move(start));
}

// Whether the next generation could begin: each of its slots has a member that goes on, or a
// newcomer at the gate. Other newcomers have to be gone if some are let in, for they share the
// number of their generation.
bool ElasticDriver::IsNextMet() const {
  const ElasticRoster::Counts& counts = roster_.counts();
  if (counts.newcomers != counts.arrived) return false;
  int let_in = 0;
  for (const RankInfo& place : approach_.next->ranks) {
    const WorkerId worker = roster_.On(place.host_index, place.local_rank);
    if (GoesOn(roster_, worker)) continue;
    const Process* process = roster_.Living(worker);
    const bool is_newcomer =
        process != nullptr && process->role == ElasticRoster::Role::kNewcomer &&
        process->has_arrived && !process->is_told_to_end &&
        process->record.generation == generation_ + 1 && process->place == place;
    if (!is_newcomer) return false;
    ++let_in;
  }
  return let_in == 0 || (let_in == counts.newcomers && counts.strays == 0);
}

// A round that only brings back what failures took is free, and so are hosts that leave with
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

// By value: `plan` may be the one of the approach, which ends here.
void ElasticDriver::Publish(HostPlan plan) {
  std::vector<HostChange> changes = ChangesBetween(round_.plan, plan, registry_);
  const bool is_counted = IsCounted(plan, changes);
  if (is_counted && policy_.reset_limit && resets_ >= *policy_.reset_limit) {
    return EndBy(EndByResetLimit(*policy_.reset_limit));
  }
  resets_ += is_counted ? 1 : 0;
  const int old_size = static_cast<int>(round_.members.size());
  if (round_.has_failures) approach_.refill_to = std::max(approach_.refill_to, old_size);
  if (SizeOf(plan) >= approach_.refill_to) approach_.refill_to = 0;
  effect::PublishGeneration publish{.ranks = RanksOf(plan, registry_)};
  bool has_newcomers = false;
  for (const RankInfo& place : publish.ranks) {
    publish.workers.push_back(roster_.On(place.host_index, place.local_rank));
    has_newcomers |= !GoesOn(roster_, publish.workers.back());
  }
  // Newcomers that are not let in were promised this generation's number: it is left out, so that
  // their relays never let them in.
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
  round_ = {.plan = std::move(plan), .members = publish.workers, .begun = now_};
  has_begun_ = true;
  approach_.tries.clear();
  effects_.push_back(std::move(publish));
  Announce(std::move(changes), is_counted);
  AbandonJoin();
  approach_.is_dirty = true;
}

// The first generation, or the next one of a gang: all workers are new and in it from the start.
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
    const WorkerId worker = roster_.Add(place, generation_, ElasticRoster::Role::kMember, now_);
    publish.workers.push_back(worker);
    start.workers.push_back({worker, place});
    in_use_.insert(place.host_index);
  }
  round_ = {.plan = plan, .members = publish.workers, .begun = now_};
  effects_.push_back(std::move(publish));
  effects_.push_back(std::move(start));
  Announce(std::move(changes), false);
  Enter(ElasticState::kRunning);
}

// Of a host that lost slots without a failure.
std::string ElasticDriver::WhyFewer(const std::string& name) const {
  const HostRegistry::Host* host = registry_.Find(name);
  if (host == nullptr || host->is_available()) return "it has fewer slots now";
  return host->is_leaving ? "it was told to leave" : "discovery does not list it any more";
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
  if (generation_ > 1) {
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

// Sends the notice that is due. The code is always "mixed": who learns of the change by a failure
// before it meets does not skip the broadcast of the state, and all have to do alike (spec 3.9,
// 3.11 row 3).
void ElasticDriver::RingBell() {
  if (!approach_.next_notice || now_ < *approach_.next_notice) return;
  approach_.next_notice = now_ + policy_.notice_interval;
  const WorkerId rank_0 = round_.members.front();
  const Process* process = roster_.Living(rank_0);
  if (process == nullptr || !process->is_registered) return;
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(now_ - begun_).count();
  last_timestamp_ = std::max(policy_.began_epoch_s + elapsed, last_timestamp_ + 1);
  effects_.push_back(effect::Notify{rank_0, process->host(), last_timestamp_, UpdateCode::kMixed});
}

}  // namespace hvdray
