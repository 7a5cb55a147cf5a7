// Members and newcomers that end before their time: whom it concerns, and who is to blame.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>

#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/gang_cause.h"

namespace hvdray {
namespace {

constexpr Duration kLongestMoment = std::chrono::seconds(3);  // as GangPolicy has it
constexpr std::string_view kWhileConnecting = " while the gang connected";

// Horovod's workers abort when a peer dies while they meet (spec 2.2): `terminate`, as a shell
// reports it too.
bool IsAbort(const wire::ExitStatus& status) {
  return status.signal == SIGABRT || (status.signal == 0 && status.exit_code == 128 + SIGABRT);
}

// Its lines begin with the host already.
std::string ReasonOf(const Status& why, const std::string& host) {
  const std::string prefix = fmt::format("host {}: ", host);
  return why.message().starts_with(prefix) ? why.message().substr(prefix.size()) : why.message();
}

}  // namespace

bool ElasticDriver::IsAnnounced(int host) const {
  const HostRegistry::Host& entry = registry_.host(host);
  return entry.is_leaving || !entry.is_listed;
}

// A member has ended without success, unasked.
void ElasticDriver::MemberFailed(WorkerId worker) {
  const WorkerRecord& record = roster_.Of(worker).record;
  const int host = roster_.Of(worker).host();
  const bool is_abort = IsAbort(*record.status);
  const bool was_broken = round_.is_broken;
  NoteBroken();
  const bool is_victim = is_abort && (was_broken || round_.is_connecting());
  NoteFailed(worker, was_broken);
  log_.NoteLeaving(registry_.name(host),
                   fmt::format("{} {}{}", NameOf(record), Describe(*record.status),
                               round_.fell_apart && !is_abort ? kWhileConnecting : ""));
  log_.NoteStandstill(now_);
  // The first to end need not be the first to fail.
  const bool may_wait = policy_.moment > Duration::zero() && !IsPlainCrash(record) &&
                        record.status->stage == wire::ExecStage::kNone && !round_.fell_apart;
  if (may_wait && !round_.moment_by && round_.to_evict.empty()) {
    round_.failing_since = now_;
    round_.moment_by = now_ + policy_.moment;
  }
  if (IsGang()) return;
  approach_.next.reset();
  if (!IsAnnounced(host)) {
    round_.has_failures = true;
    if (!round_.is_connecting() || !CanBeginAgain()) {
      // Who only fell with a peer gets new workers on the same host.
      is_victim ? registry_.MoveToEnd(host) : Blame(host);
    }
  }
  if (round_.moment_by && !HasMembersElsewhere(host)) {
    round_.to_evict.insert(host);
    return;
  }
  Evict(host);
  BreakConnections();
}

bool ElasticDriver::HasMembersElsewhere(int host) const {
  return std::any_of(round_.plan.begin(), round_.plan.end(), [&](const HostShare& share) {
    return share.host != host && HasMemberThatGoesOn(roster_, share.host) &&
           !round_.to_evict.contains(share.host);
  });
}

// The members, without the errors of earlier generations, which they outlived.
std::vector<WorkerRecord> ElasticDriver::Suspects() const {
  std::vector<WorkerRecord> records = roster_.Records(round_.members);
  for (WorkerRecord& record : records) {
    if (!record.erred || *record.erred >= round_.begun) continue;
    record.erred.reset();
    record.error = {};
  }
  return records;
}

void ElasticDriver::ExpireMoment() {
  const Culprit culprit = FindCulprit(Suspects());
  const bool is_known = culprit.index >= 0 && culprit.is_own;
  const bool is_any_erring =
      std::any_of(round_.members.begin(), round_.members.end(), [this](WorkerId worker) {
        const Process* process = roster_.Living(worker);
        return process != nullptr && process->record.error.is_own();
      });
  const bool may_wait = !is_known || is_any_erring;
  if (may_wait && now_ < round_.failing_since + kLongestMoment) {
    round_.moment_by = now_ + policy_.moment;
    return;
  }
  round_.moment_by.reset();
  for (const int host : round_.to_evict) Evict(host);
  approach_.is_dirty = true;
}

// Weighs what the members have said, if any has said anything; else the first to end it is.
void ElasticDriver::ChooseCulprit() {
  const std::vector<WorkerRecord> records = Suspects();
  const bool has_words = std::any_of(records.begin(), records.end(), [](const WorkerRecord& one) {
    return one.error != LastError();
  });
  if (!has_words || !round_.first_failure) return;
  round_.culprit = FindCulprit(records);
  if (round_.culprit.index < 0) return;
  const auto index = static_cast<size_t>(round_.culprit.index);
  round_.first_failure = records[index];
  round_.first_failed = round_.members[index];
  for (size_t i = 0; i < records.size(); ++i) {
    const bool has_fallen = i != index && !records[i].error.peer_words.empty();
    if (has_fallen) roster_.MarkVictim(round_.members[i]);
  }
}

// Keeps who is to blame for the end of the round. While they connect, those that only fell with a
// peer may be heard of before it.
void ElasticDriver::NoteFailed(WorkerId worker, bool was_broken) {
  const WorkerRecord& record = roster_.Of(worker).record;
  const bool is_abort = IsAbort(*record.status);
  if (is_abort && was_broken) return roster_.MarkVictim(worker);
  if (!is_abort) ForgiveAborted();
  if (round_.first_failure) return;
  round_.first_failure = record;
  round_.first_failed = worker;
}

// The cause is known now: whoever aborted before that did so because of it.
bool ElasticDriver::ForgiveAborted() {
  if (!round_.fell_apart || !round_.first_failure) return false;
  if (!IsAbort(*round_.first_failure->status)) return false;
  roster_.MarkVictim(round_.first_failed);
  round_.first_failure.reset();
  return true;
}

// A newcomer has ended, or is given up, before it was let in. No event for the gang.
void ElasticDriver::NewcomerDied(WorkerId worker) {
  const Process& process = roster_.Of(worker);
  const int host = process.host();
  const int tries = ++approach_.tries[{host, process.place.local_rank}];
  const std::string what =
      process.record.status ? Describe(*process.record.status) : "did not arrive";
  approach_.is_dirty = true;
  if (IsAnnounced(host)) return;
  if (tries <= policy_.join_retries) {
    Say(fmt::format("{} {} before it joined: it is started again", NameOf(process.record), what));
    return;
  }
  Say(fmt::format("{} {} before it joined: host {} is left out", NameOf(process.record), what,
                  registry_.name(host)));
  approach_.next.reset();
  int members = 0;
  for (const WorkerId other : roster_.LivingOn(host)) members += GoesOn(roster_, other) ? 1 : 0;
  if (members > 0) {
    // What works there goes on; there is just no room for more.
    registry_.Cap(host, members);
    return;
  }
  Blame(host);
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
  const bool was_unstopped = ending_.unstopped.erase(host) > 0;
  if (state_ == ElasticState::kStopping) {
    // Output of a success may be lost with it.
    if (was_unstopped && ending_.cause.end == ElasticEnd::kSuccess) {
      EndBy(EndByUnreported(Status(why).WithContext(fmt::format("host {}", registry_.name(host)))));
    }
    return;
  }
  const bool is_blamed = !IsAnnounced(host);
  if (is_blamed) Blame(host);
  const std::string& name = registry_.name(host);
  if (members == 0) {
    if (is_blamed) Say(fmt::format("host {} is left out: {}", name, ReasonOf(why, name)));
    return;
  }
  log_.NoteLeaving(name, ReasonOf(why, name));
  log_.NoteStandstill(now_);
  NoteBroken();
  round_.has_lost_host = true;
  if (ForgiveAborted()) log_.NoteCause(registry_.name(host));
  round_.has_failures |= is_blamed;
  approach_.next.reset();
  BreakConnections();
}

void ElasticDriver::GiveUp(int host, const Status& why) {
  effects_.push_back(effect::ReleaseHost{host});
  LoseHost(host, why);
}

void ElasticDriver::Blame(int host) {
  registry_.Blacklist(host, now_);
  approach_.is_dirty = true;
}

// The workers of a host stay together: where one has failed, the others end too (spec 3.6).
void ElasticDriver::Evict(int host) { StopWorkers(roster_.LivingOn(host), policy_.grace); }

void ElasticDriver::StopWorkers(std::span<const WorkerId> workers, Duration grace) {
  effect::StopWorkers stop{.workers = {}, .grace = grace};
  for (const WorkerId worker : workers) {
    if (!roster_.MarkToldToEnd(worker, now_)) continue;
    Watch(worker, now_ + grace + policy_.stop_margin);
    stop.workers.push_back(worker);
  }
  if (!stop.workers.empty()) effects_.push_back(std::move(stop));
}

void ElasticDriver::Watch(WorkerId worker, TimePoint limit) {
  roster_.SetLimit(worker, limit);
  approach_.limits.emplace(limit, worker);
}

// Once in a generation: what is shut stays shut, and new connections there are none.
void ElasticDriver::BreakConnections() {
  if (!policy_.breaks_connections || round_.is_break_ordered || IsGang()) return;
  if (!round_.is_open && CanBeginAgain()) return;  // They are stopped.
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

// Members that others have waited for too long: to them they are as good as dead.
void ElasticDriver::StopStragglers() {
  for (const HostShare& share : std::vector(round_.plan)) {
    for (const WorkerId worker : roster_.LivingOn(share.host)) {
      if (!GoesOn(roster_, worker) || roster_.Of(worker).is_parked) continue;
      log_.NoteLeaving(registry_.name(share.host),
                       fmt::format("{} did not come within {}", NameOf(roster_.Of(worker).record),
                                   ShowDuration(policy_.straggler_timeout)));
      NoteBroken();
      if (!IsAnnounced(share.host)) {
        round_.has_failures = true;
        Blame(share.host);
      }
      approach_.next.reset();
      Evict(share.host);
      break;
    }
  }
  approach_.is_dirty = true;
}

// The time that a leaving host gave is over but for the grace.
void ElasticDriver::ClearLeavingHost(int host) {
  const std::vector<WorkerId> living = roster_.LivingOn(host);
  const bool has_members =
      std::any_of(living.begin(), living.end(), [this](WorkerId w) { return GoesOn(roster_, w); });
  Evict(host);
  approach_.is_dirty = true;
  if (!has_members) return;
  NoteBroken();
  approach_.next.reset();
  BreakConnections();
}

}  // namespace hvdray
