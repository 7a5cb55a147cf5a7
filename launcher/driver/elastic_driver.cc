#include "launcher/driver/elastic_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/gang_cause.h"

namespace hvdray {

ElasticDriver::ElasticDriver(ElasticPolicy policy, uint64_t jitter_seed, TimePoint now,
                             StateChangeFn on_change)
    : policy_(policy),
      on_change_(on_change),
      begun_(now),
      registry_(policy.cooldown, jitter_seed),
      roster_(std::move(on_change)),
      now_(now),
      state_deadline_(now + policy.elastic_timeout) {
  if (policy_.timeout > Duration::zero()) job_deadline_ = now + policy_.timeout;
}

std::vector<ElasticEffect> ElasticDriver::Handle(const ElasticEvent& event, TimePoint now) {
  if (IsTerminal(state_)) return {};
  now_ = std::max(now_, now);
  effects_.clear();
  const bool was_unlimited = IsDrainUnlimited();
  std::visit([this](const auto& e) { On(e); }, event);
  Settle();
  ExpireDeadlines();
  Settle();
  // What was not counted while the reader was slow starts to count now.
  if (was_unlimited && !IsDrainUnlimited() && state_ == ElasticState::kStopping) {
    state_deadline_ = std::max(*state_deadline_, now_ + policy_.stop_margin);
  }
  RingBell();
  return std::exchange(effects_, {});
}

std::optional<TimePoint> ElasticDriver::NextDeadline() const {
  if (IsTerminal(state_)) return std::nullopt;
  std::optional<TimePoint> next = job_deadline_;
  const auto add = [&next](const std::optional<TimePoint>& one) {
    if (one) next = next ? std::min(*next, *one) : *one;
  };
  if (!IsDrainUnlimited()) add(state_deadline_);
  if (state_ == ElasticState::kStopping) return next;
  add(registry_.NextExpiry());
  if (const auto limit = registry_.NextConnectLimit()) add(limit->first);
  add(approach_.settle_deadline);
  add(approach_.next_notice);
  add(approach_.straggler_deadline);
  add(round_.meet_by);
  add(round_.moment_by);
  if (!approach_.limits.empty()) add(approach_.limits.begin()->first);
  for (const auto& [host, when] : approach_.clear_at) add(when);
  return next;
}

ElasticSnapshot ElasticDriver::Snapshot() const {
  return {.state = state_,
          .generation = generation_,
          .size = static_cast<int>(round_.members.size()),
          .counts = roster_.counts(),
          .slots_found = registry_.CountSlots(),
          .resets = IsGang() ? restarts_ : resets_,
          .stale_events = stale_events_};
}

void ElasticDriver::On(const event::HostsDiscovered& e) {
  has_discovered_ = true;
  is_source_final_ = e.is_final;
  is_discovery_failing_ = false;
  registry_.Update(e.hosts, now_);
  approach_.is_dirty = true;
}

void ElasticDriver::On(const event::DiscoveryFailed& e) {
  if (!has_discovered_) return EndBy(EndByDiscovery(e.why));
  if (is_discovery_failing_) return;
  is_discovery_failing_ = true;
  Say(fmt::format("{}; the job goes on with the hosts that it knows", e.why.message()));
}

void ElasticDriver::On(const event::HostReady& e) {
  if (!registry_.MarkReady(e.host, e.facts.offered_port)) return Count(false);
  // Ten thousand agents that start are not ten thousand looks at ten thousand hosts.
  const bool is_one_of_many = state_ == ElasticState::kGathering && registry_.connecting() > 0 &&
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
  const ElasticRoster::Role role = process->role;
  roster_.MarkEnded(e.worker, e.status, now_);
  approach_.is_dirty = true;
  if (is_ours) roster_.MarkVictim(e.worker);
  if (state_ == ElasticState::kStopping) return;
  if (role == ElasticRoster::Role::kMember && Rejoin(e.worker)) return;
  if (is_ours) {
    // Whom we gave up in hvd.init() and can't replace is as lost to the others as one that failed.
    if (role == ElasticRoster::Role::kMember && policy_.repairs_meetings) NoteBroken();
    return;
  }
  switch (role) {
    case ElasticRoster::Role::kNewcomer:
      return NewcomerDied(e.worker);
    case ElasticRoster::Role::kRemoved:
      return;
    case ElasticRoster::Role::kMember:
      if (!e.status.is_success()) return MemberFailed(e.worker);
      if (++round_.done == 1) round_.first_done = e.worker;
      return;
  }
}

void ElasticDriver::On(const event::WorkerArrived& e) { Count(roster_.MarkArrived(e.worker)); }

void ElasticDriver::On(const event::RankAsked& e) {
  Count(roster_.MarkParked(e.worker));
  NoteThrough();
}

void ElasticDriver::On(const event::AddressesRegistered& e) {
  Count(roster_.MarkRegistered(e.worker));
  NoteThrough();
  // Whom the notice waits for hears it at once.
  const bool is_rank_0 = !round_.members.empty() && round_.members.front() == e.worker;
  if (approach_.next_notice && is_rank_0) approach_.next_notice = now_;
}

void ElasticDriver::On(const event::HostLeaving& e) {
  if (!registry_.MarkLeaving(e.host)) return Count(false);
  approach_.is_dirty = true;
  if (roster_.CountLivingOn(e.host) == 0) return;
  Say(fmt::format("host {} leaves in {}: its workers are moved out of the job",
                  registry_.name(e.host), ShowDuration(std::max(e.in, Duration::zero()))));
  approach_.clear_at[e.host] = std::max(now_, now_ + e.in - policy_.grace);
}

void ElasticDriver::On(const event::GenerationStopped& e) {
  if (ending_.unstopped.erase(e.host) == 0) return Count(false);
  in_use_.erase(e.host);
  ending_.swept += e.swept;
  registry_.OfferPort(e.host, e.offered_port);
  for (const WorkerId worker : roster_.LivingOn(e.host)) roster_.MarkLost(worker, now_);
}

void ElasticDriver::On(const event::UserSignal& e) {
  ++ending_.signals;
  const bool was_stopping = state_ == ElasticState::kStopping;
  if (ending_.signals == 1) {
    ElasticCause cause = EndBySignal(e.signo);
    if (was_stopping) {
      Say("the workers are being stopped already; once more to kill them now");
    } else if (!in_use_.empty()) {
      Say(StopNotice(e.signo, policy_.grace));
    }
    EndBy(std::move(cause));
  } else if (ending_.signals == 2 && was_stopping) {
    Say("killing all workers");
    StopAll(Duration::zero());
  }
}

void ElasticDriver::On(const event::ReaderGone&) { EndBy(EndByReaderGone()); }

void ElasticDriver::On(const event::OutputDamaged& e) {
  if (!ending_.output_damage.ok()) return;
  ending_.output_damage = e.why.ok()
                              ? Status(ErrorCode::kOutputLost, "output was not written whole")
                              : Status(e.why).WithCode(ErrorCode::kOutputLost);
  Say(fmt::format("{}; the job goes on without it", ending_.output_damage.message()));
}

void ElasticDriver::On(const event::OutputBlocked& e) { ending_.is_output_blocked = e.is_blocked; }

void ElasticDriver::Settle() {
  for (;;) {
    const ElasticState state = state_;
    const ElasticEnd end = ending_.cause.end;
    Advance();
    // A cause that was found just now has consequences too.
    if (state_ == state && ending_.cause.end == end) return;
  }
}

// Draws the consequences of what is known, one step.
void ElasticDriver::Advance() {
  if (ending_.cause.end != ElasticEnd::kNone && state_ != ElasticState::kStopping &&
      !IsTerminal(state_)) {
    // What a successful gang leaves behind is no worker: it gets no grace.
    const bool is_all_over = roster_.counts().living == 0;
    return StopAll(is_all_over ? Duration::zero() : policy_.grace);
  }
  switch (state_) {
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
      if (ending_.unstopped.empty()) Finish();
      return;
    case ElasticState::kFinished:
      return;
  }
}

// The only place that changes the state.
void ElasticDriver::Enter(ElasticState to) {
  if (to == state_) return;
  const ElasticState from = std::exchange(state_, to);
  HVDRAY_CHECK(CanFollow(from, to));
  state_deadline_.reset();
  if (on_change_) {
    on_change_({.when = now_,
                .generation = generation_,
                .rank = -1,
                .from = NameOf(from),
                .to = NameOf(to)});
  }
}

void ElasticDriver::ExpireDeadlines() {
  if (registry_.Expire(now_) != UpdateCode::kNone) approach_.is_dirty = true;
  if (job_deadline_ && now_ >= *job_deadline_) {
    job_deadline_.reset();
    ending_.is_timed_out = true;
    EndBy(EndByTimeout(policy_.timeout));
  }
  if (state_deadline_ && now_ >= *state_deadline_ && !IsDrainUnlimited()) {
    state_deadline_.reset();
    ExpireState();
  }
  if (state_ == ElasticState::kStopping) return;
  while (const auto limit = registry_.NextConnectLimit()) {
    if (limit->first > now_) break;
    GiveUp(limit->second,
           {ErrorCode::kDeadlineExceeded,
            fmt::format("its agent did not start within {}", ShowDuration(policy_.start_timeout))});
  }
  ExpireLimits();
}

void ElasticDriver::ExpireLimits() {
  while (!approach_.limits.empty() && approach_.limits.begin()->first <= now_) {
    const WorkerId worker = approach_.limits.begin()->second;
    approach_.limits.erase(approach_.limits.begin());
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->limit > now_) continue;
    if (process->is_told_to_end) {
      GiveUp(process->host(),
             {ErrorCode::kDeadlineExceeded, "it did not report the end of its workers"});
    } else if (process->role == ElasticRoster::Role::kNewcomer && !process->has_arrived) {
      Say(fmt::format("{} has not joined within {}", NameOf(process->record),
                      ShowDuration(policy_.elastic_timeout)));
      StopWorkers(std::vector{worker}, Duration::zero());
      NewcomerDied(worker);
    } else if (process->role == ElasticRoster::Role::kRemoved) {
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
  if (round_.meet_by && now_ >= *round_.meet_by) ExpireMeeting();
  if (round_.moment_by && now_ >= *round_.moment_by) ExpireMoment();
  if (approach_.straggler_deadline && now_ >= *approach_.straggler_deadline) {
    approach_.straggler_deadline.reset();
    StopStragglers();
  }
}

void ElasticDriver::ExpireState() {
  if (state_ == ElasticState::kStopping || state_ == ElasticState::kRestarting) {
    return GiveUpUnstopped();
  }
  // kGathering and kShort: the others have no limit of their own.
  const bool is_first = state_ == ElasticState::kGathering;
  EndBy(EndByNoSlots(is_first ? policy_.np : policy_.min_np, SizeOf(approach_.target),
                     policy_.elastic_timeout, true, is_first));
}

}  // namespace hvdray
