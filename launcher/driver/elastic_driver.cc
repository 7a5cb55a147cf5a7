// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/elastic_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "launcher/driver/cause.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

// Most of a leaving host's notice is for leaving with the next generation, which loses no step.
constexpr int kLeavesPerGrace = 6;
constexpr size_t kMostDiscoveryFailures = 10;
constexpr Duration kSilentWait = std::chrono::seconds(5);
constexpr std::string_view kWhileConnecting = " while the gang was connecting";

// Lines that print it begin with the host already.
std::string ReasonOf(const Status& why, const std::string& host) {
  const std::string prefix = fmt::format("host {}: ", host);
  return why.message().starts_with(prefix) ? why.message().substr(prefix.size()) : why.message();
}

// For a host that lost slots without a failure.
std::string WhyFewer(const HostRegistry& hosts, const std::string& name) {
  const HostRegistry::Host* host = hosts.Find(name);
  if (host == nullptr || host->is_available()) return "it has fewer slots now";
  return host->is_leaving ? "it was told to leave" : "discovery no longer lists it";
}

}  // namespace

ElasticDriver::ElasticDriver(const ElasticPolicy& policy, uint64_t jitter_seed, TimePoint now,
                             StateChangeFn on_change)
    : JobDriver(
          {.grace = policy.grace, .timeout = policy.timeout, .stop_margin = policy.stop_margin},
          ElasticState::kGathering, now, on_change),
      policy_(policy),
      registry_(policy.cooldown, jitter_seed),
      roster_(std::move(on_change), policy.first_worker),
      resets_(policy.reset_limit) {
  generation_ = started_generation_ = policy.last_generation;
  state_deadline_ = now + policy.elastic_timeout;
  say_wait_at_ = now + kSilentWait;
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
  add(settle_deadline_);
  if (state() == ElasticState::kGathering) add(say_wait_at_);
  add(NextRunning());
  add(round_.barrier().limit());
  add(round_.blame().moment_by());
  add(roster_.NextLimit());
  for (const auto& [host, when] : clear_at_) add(when);
  return next;
}

ElasticSnapshot ElasticDriver::Snapshot() const {
  return {.state = state(),
          .generation = generation_,
          .size = round_.size(),
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
  target_.MarkChanged();
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
                              (settle_deadline_ || registry_.ready_slots() < policy_.np);
  if (!is_one_of_many) target_.MarkChanged();
}

void ElasticDriver::On(const event::HostLost& e) {
  if (!registry_.IsKnown(e.host)) return Count(false);
  LoseHost(e.host,
           e.why.ok() ? Status(ErrorCode::kAgentLost, "the link to its agent closed") : e.why);
}

void ElasticDriver::On(const event::HostLeaving& e) {
  if (!registry_.MarkLeaving(e.host)) return Count(false);
  target_.MarkChanged();
  if (roster_.CountLivingOn(e.host) == 0) return;
  Say(fmt::format("host {} leaves in {}; moving its workers out of the job", registry_.name(e.host),
                  ShowDuration(std::max(e.in, Duration::zero()))));
  const Duration grace = std::min<Duration>(policy_.grace, e.in / kLeavesPerGrace);
  clear_at_[e.host] = std::max(now_, now_ + e.in - grace);
}

void ElasticDriver::On(const event::GenerationStopped& e) {
  if (unstopped_.erase(e.host) == 0) return Count(false);
  in_use_.erase(e.host);
  ending_.swept += e.swept;
  registry_.OfferPort(e.host, e.offered_port);
  for (const WorkerId worker : roster_.LivingOn(e.host)) roster_.MarkLost(worker, now_);
}

void ElasticDriver::On(const event::ProcessStarted& e) {
  Count(roster_.MarkStarted(e.worker, e.pid, now_));
}

void ElasticDriver::On(const event::ProcessExited& e) {
  const Process* process = roster_.Living(e.worker);
  if (process == nullptr) return Count(false);
  const bool is_ours = process->is_told_to_end;
  roster_.MarkEnded(e.worker, e.status, /*was_stopping=*/is_ours, now_);
  target_.MarkChanged();
  if (is_ours) roster_.MarkVictim(e.worker);
  if (state() == ElasticState::kStopping) return;
  // A gang that restarts says it of all at once.
  if (is_ours && state() != ElasticState::kRestarting) {
    SayKilled(std::vector{roster_.Of(e.worker).record});
  }
  ProcessEnded(e.worker);
}

void ElasticDriver::Advance() {
  const ElasticState before = state();
  const CauseKind kind = ending_.cause.kind;
  if (IsTerminal(before)) return;
  if (before == ElasticState::kStopping) {
    if (unstopped_.empty()) Finish();
  } else if (kind != CauseKind::kNone) {
    // Processes left by a successful gang are not workers: they get no grace.
    StopAll(roster_.counts().living == 0 ? Duration::zero() : grace_);
  } else if (before == ElasticState::kGathering) {
    if (HasGathered(policy_.np)) StartAll();
  } else {
    AdvanceRunning();
  }
  // A cause found just now has consequences, too.
  if (state() != before || ending_.cause.kind != kind) Advance();
}

void ElasticDriver::ExpireOthers() {
  if (state() == ElasticState::kStopping || IsTerminal(state())) return;
  if (registry_.Expire(now_) != UpdateCode::kNone) target_.MarkChanged();
  while (const auto limit = registry_.NextConnectLimit()) {
    if (limit->first > now_) break;
    GiveUp(limit->second,
           {ErrorCode::kDeadlineExceeded,
            fmt::format("its agent did not start within {}", ShowDuration(policy_.start_timeout))});
  }
  if (say_wait_at_ && now_ >= *say_wait_at_) SayWait();
  ExpireProcesses();
  ClearLeavingHosts();
  ExpireRunning();
  Advance();
}

void ElasticDriver::ExpireProcesses() {
  for (WorkerId worker = roster_.TakeDue(now_); worker != kNoWorker;
       worker = roster_.TakeDue(now_)) {
    const Process& process = roster_.Of(worker);
    if (!process.is_told_to_end) {
      ExpireProcess(worker);
      continue;
    }
    GiveUp(process.host(),
           {ErrorCode::kDeadlineExceeded, "it did not report that its workers ended"});
  }
}

// Of leaving hosts, whose notice time is over but for the grace.
void ElasticDriver::ClearLeavingHosts() {
  const auto is_due = [this](const auto& entry) { return entry.second <= now_; };
  for (;;) {
    const auto due = std::find_if(clear_at_.begin(), clear_at_.end(), is_due);
    if (due == clear_at_.end()) return;
    const std::vector<WorkerId> living = roster_.LivingOn(due->first);
    clear_at_.erase(due);
    const bool has_members = std::any_of(
        living.begin(), living.end(), [this](WorkerId worker) { return GoesOn(roster_, worker); });
    StopWorkers(living, policy_.grace);
    target_.MarkChanged();
    if (!has_members) continue;
    round_.Break(now_);
    MembersLost();
  }
}

void ElasticDriver::ExpireRunning() {
  const std::optional<TimePoint>& moment = round_.blame().moment_by();
  if (!moment || now_ < *moment) return;
  if (!round_.blame().EndMoment(roster_, round_.members(), now_, policy_.moment)) return;
  for (const int host : round_.blame().to_evict()) {
    StopWorkers(roster_.LivingOn(host), policy_.grace);
  }
  target_.MarkChanged();
}

void ElasticDriver::ExpireState() {
  if (state() == ElasticState::kStopping || state() == ElasticState::kRestarting) {
    const std::set<int> hosts = unstopped_;
    std::vector<std::string> names;
    names.reserve(hosts.size());
    for (const int host : hosts) names.push_back(registry_.name(host));
    const Status error = GiveUpCause(names).error;
    for (const int host : hosts) GiveUp(host, error);
    if (state() == ElasticState::kStopping) EndBy(UnreportedCause(error));
    return;
  }
  // kGathering and kShort; the other states have no limit.
  const bool is_first = state() == ElasticState::kGathering;
  EndBy(NoSlotsCause(is_first ? policy_.np : policy_.min_np, target_.size(),
                     policy_.elastic_timeout, true, is_first, last_loss_));
}

// Enough hosts are ready, and those that still connect have had their time.
bool ElasticDriver::HasGathered(int needed) {
  if (settle_deadline_ && now_ >= *settle_deadline_) target_.MarkChanged();
  Retarget();
  if (target_.size() < needed) {
    settle_deadline_.reset();
    if (has_discovered_) HasEnough(needed);
    return false;
  }
  if (!settle_deadline_) settle_deadline_ = now_ + policy_.settle;
  if (registry_.connecting() > 0 && now_ < *settle_deadline_) return false;
  settle_deadline_.reset();
  return true;
}

// On false, ends the job if the missing slots can never come.
bool ElasticDriver::HasEnough(int needed) {
  const int found = target_.size();
  if (found >= needed) return true;
  if (is_source_final_ && !target_.HasInSight(needed, registry_))
    EndBy(NoSlotsCause(needed, found, policy_.elastic_timeout, false,
                       generation_ == policy_.last_generation, last_loss_));
  return false;
}

// What the first generation lacks. Sooner it would be noise: most hosts connect within this time.
void ElasticDriver::SayWait() {
  say_wait_at_.reset();
  if (state() != ElasticState::kGathering || ending_.cause.kind != CauseKind::kNone) return;
  target_.MarkChanged();  // may be out of date, see On(HostReady)
  Retarget();
  const int ready = target_.size();
  if (ready >= policy_.np) return;
  std::vector<std::string> connecting;
  for (const int host : registry_.order()) {
    if (registry_.host(host).agent == HostRegistry::Agent::kConnecting) {
      connecting.push_back(registry_.name(host));
    }
  }
  const int missing = policy_.np - target_.potential();
  std::string what = has_discovered_ ? fmt::format("{} more", missing) : "the first list of hosts";
  if (!connecting.empty()) {
    what = fmt::format("host{} {} to be ready{}", connecting.size() == 1 ? "" : "s",
                       CompressHostList(connecting),
                       missing > 0 ? fmt::format(", and for {} more slots", missing) : "");
  }
  Say(fmt::format("{} of {} slots available after {}; waiting up to {} for {}", ready, policy_.np,
                  ShowDuration(now_ - begun_), ShowDuration(*state_deadline_ - now_), what));
}

void ElasticDriver::EnterShort() {
  if (state() == ElasticState::kShort || ending_.cause.kind != CauseKind::kNone) return;
  Enter(ElasticState::kShort);
  state_deadline_ = now_ + policy_.elastic_timeout;
  Say(fmt::format("{} of at least {} slots available; waiting up to {} for more", target_.size(),
                  policy_.min_np, ShowDuration(policy_.elastic_timeout)));
}

// Follows changes of hosts, their slots and their workers. Returns whether there were any.
bool ElasticDriver::Retarget() {
  if (!target_.is_changed()) return false;
  const auto moves = target_.Renew(registry_, roster_, round_.plan(), policy_.max_np,
                                   now_ + policy_.start_timeout);
  effects_.reserve(effects_.size() + moves.connect.size() + moves.release.size());
  for (const int host : moves.connect) {
    effects_.push_back(effect::ConnectHost{host, registry_.host(host).found});
  }
  for (const int host : moves.release) {
    in_use_.erase(host);
    clear_at_.erase(host);
    effects_.push_back(effect::ReleaseHost{host});
  }
  return true;
}

// The first generation, or a gang's next one: all workers are new members.
void ElasticDriver::StartAll(bool is_counted, const std::string& told) {
  const HostPlan plan = target_.plan();
  std::vector<HostChange> changes = ChangesBetween(round_.plan(), plan, registry_);
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
  resets_.NoteNext(round_, SizeOf(plan));
  round_ = Round(plan, publish.workers, now_);
  effects_.push_back(std::move(publish));
  effects_.push_back(std::move(start));
  Announce(std::move(changes), is_counted, told);
  Enter(ElasticState::kRunning);
}

// `told`: a reason that was printed already.
void ElasticDriver::Announce(std::vector<HostChange> changes, bool is_counted,
                             const std::string& told) {
  effect::MembershipChanged change = log_.Close({.generation = generation_,
                                                 .size = round_.size(),
                                                 .changes = std::move(changes),
                                                 .stood_still = Duration::zero(),
                                                 .is_counted = is_counted},
                                                now_);
  for (HostChange& host : change.changes) {
    if (host.workers < 0 && host.why.empty()) host.why = WhyFewer(registry_, host.host);
  }
  if (generation_ > policy_.last_generation + 1) {
    effect::MembershipChanged news = change;
    for (HostChange& host : news.changes) {
      if (host.why == told) host.why.clear();
    }
    Say(MembershipLine(news));
  }
  effects_.push_back(std::move(change));
}

// A member failed by itself.
void ElasticDriver::NoteFailure(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  const WorkerRecord& record = process.record;
  const bool was_broken = round_.is_broken();
  round_.Break(now_);
  Pardon(round_.blame().NoteFailed(roster_, worker, was_broken, round_.fell_apart()));
  const bool is_culprit = round_.fell_apart() && !Blame::IsAbort(*record.status);
  log_.NoteLeaving(registry_.name(process.host()),
                   fmt::format("{} {}{}", Name(record), Describe(*record.status),
                               is_culprit ? kWhileConnecting : ""));
  log_.NoteStandstill(now_);
  // The first member to end need not be the first to fail.
  const bool may_wait = policy_.moment > Duration::zero() && !IsPlainCrash(record) &&
                        record.status->stage == wire::ExecStage::kNone && !round_.fell_apart();
  if (may_wait) round_.blame().BeginMoment(now_, policy_.moment);
}

// Its end was reported before its cause, and its host excluded for it.
void ElasticDriver::Pardon(WorkerId victim) {
  if (victim == kNoWorker) return;
  const int host = roster_.Of(victim).host();
  if (std::exchange(doubted_host_, -1) == host && registry_.Pardon(host)) target_.MarkChanged();
}

void ElasticDriver::LoseHost(int host, const Status& why) {
  const bool was_there = registry_.MarkGone(host);
  Count(was_there);
  if (!was_there) return;
  if (doubted_host_ == host) doubted_host_ = -1;
  in_use_.erase(host);
  clear_at_.erase(host);
  target_.MarkChanged();
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
  const bool is_blamed = !IsAnnounced(registry_, host);
  if (is_blamed) registry_.Blacklist(host, now_);
  const std::string& name = registry_.name(host);
  if (members == 0) {
    if (is_blamed) Say(fmt::format("excluding host {}: {}", name, ReasonOf(why, name)));
    return;
  }
  last_loss_ = fmt::format("host {}: {}", name, ReasonOf(why, name));
  log_.NoteLeaving(name, ReasonOf(why, name));
  log_.NoteStandstill(now_);
  round_.LoseHost(now_);
  if (const WorkerId victim = round_.blame().ForgiveAborted(roster_); victim != kNoWorker) {
    log_.NoteCause(registry_.name(host));
    Pardon(victim);
  }
  if (is_blamed) round_.Fail(now_);
  MembersLost();
}

void ElasticDriver::GiveUp(int host, const Status& why) {
  effects_.push_back(effect::ReleaseHost{host});
  LoseHost(host, why);
}

void ElasticDriver::StopWorkers(std::span<const WorkerId> workers, Duration grace) {
  effect::StopWorkers stop{.workers = {}, .grace = grace};
  for (const WorkerId worker : workers) {
    if (!roster_.MarkToldToEnd(worker, grace, now_)) continue;
    roster_.SetLimit(worker, now_ + grace + policy_.stop_margin);
    stop.workers.push_back(worker);
  }
  if (!stop.workers.empty()) effects_.push_back(std::move(stop));
}

// Stops the workers on all hosts in use. May be repeated with less grace.
void ElasticDriver::StopAll(Duration grace) {
  const bool is_end = ending_.cause.kind != CauseKind::kNone;
  unstopped_ = in_use_;
  if (is_end && in_use_.empty()) return Finish();
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

void ElasticDriver::Finish() {
  Verdict verdict = Close();
  const Culprit& culprit = round_.blame().culprit();
  verdict.first_failure = round_.blame().first_failure();
  verdict.is_first_certain = culprit.index < 0 || culprit.is_certain;
  verdict.evidence = culprit.evidence;
  verdict.workers = roster_.Records(round_.members());
  verdict.restarts = restarts();
  effects_.push_back(effect::Finish{std::move(verdict)});
}

}  // namespace hvdray
