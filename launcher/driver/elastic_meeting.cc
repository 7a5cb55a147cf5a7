// The meeting of a generation in hvd.init(): who dies there before anybody has seen its addresses
// is started again in its place, and where that can't be, nobody is left waiting.
#include <fmt/format.h>

#include <algorithm>

#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/gang_cause.h"

namespace hvdray {
namespace {

// What is left of hvd.init() when all are connected: two small collectives, of which nothing is
// heard. A loss within them ends the others as one before.
constexpr Duration kRestOfInit = std::chrono::seconds(1);

}  // namespace

void ElasticDriver::On(const event::WorkerMet& e) {
  const bool is_news = policy_.repairs_meetings && roster_.MarkMet(e.worker);
  Count(is_news);
  if (!is_news) return;
  ++round_.met;
  if (!IsTraining(state_) || round_.is_broken || round_.done > 0) return;
  if (!round_.meet_by) round_.meet_by = now_ + policy_.elastic_timeout;
  if (round_.met < static_cast<int>(round_.members.size())) return;
  round_.is_open = true;
  round_.meet_by.reset();
  effects_.push_back(effect::OpenMeeting{generation_});
}

void ElasticDriver::On(const event::WorkerConnected& e) {
  const bool is_news = policy_.repairs_meetings && roster_.MarkConnected(e.worker);
  Count(is_news);
  round_.connected += is_news ? 1 : 0;
  if (is_news && round_.is_open && !round_.is_connecting()) round_.through_at = now_ + kRestOfInit;
}

// A member has done what comes behind hvd.init().
void ElasticDriver::NoteThrough() {
  if (round_.through_at) round_.through_at = std::min(*round_.through_at, now_);
}

// A member is lost, or will be.
void ElasticDriver::NoteBroken() {
  if (round_.is_broken) return;
  round_.is_broken = true;
  const bool is_through = round_.through_at && now_ >= *round_.through_at;
  round_.fell_apart = round_.is_open && !is_through;
  has_begun_ |= is_through;
}

// A member has ended. Nobody has seen an address of it, so that a new process of the same rank is
// as good to those who wait as the old one. Returns whether one is started.
bool ElasticDriver::Rejoin(WorkerId dead) {
  if (!policy_.repairs_meetings || IsGang() || round_.is_open) return false;
  const Process& process = roster_.Of(dead);
  const RankInfo place = process.place;
  const wire::ExitStatus& status = *process.record.status;
  if (process.has_met) --round_.met;
  if (!IsTraining(state_) || round_.is_broken || round_.done > 0) return false;
  if (status.is_success() && !process.is_told_to_end) return false;
  if (status.stage != wire::ExecStage::kNone) return false;
  // At first nobody has a state, but a program that fails before anybody is in hvd.init() fails
  // everywhere. Later, rank 0 would broadcast the state that it does not have.
  const bool is_anybody_there = round_.meet_by.has_value();
  if (!has_begun_ ? !is_anybody_there : place.rank == 0) return false;
  const bool is_there = !IsAnnounced(place.host_index) &&
                        Holds({{place.host_index, place.local_rank + 1}}, registry_);
  if (!is_there) return false;
  if (++approach_.tries[{place.host_index, place.local_rank}] > policy_.join_retries) return false;
  Say(fmt::format("{} {} before all had met: it is started again", NameOf(process.record),
                  Describe(status)));
  const WorkerId worker = roster_.Add(place, generation_, ElasticRoster::Role::kMember, now_);
  round_.members[static_cast<size_t>(place.rank)] = worker;
  if (round_.meet_by) round_.meet_by = now_ + policy_.elastic_timeout;
  effects_.push_back(effect::StartWorkers{.generation = generation_,
                                          .workers = {{worker, place}},
                                          .restart_count = restarts_,
                                          .master_port = policy_.master_port});
  return true;
}

// Some member waits for one that will not come. Horovod has no way back from there: whoever waits
// has no connection yet whose end would make it try again.
bool ElasticDriver::IsMeetingLost() const {
  if (!policy_.repairs_meetings || IsGang() || round_.is_open || round_.met == 0) return false;
  return round_.is_broken || round_.done > 0;
}

// As long as no gang has come out of hvd.init(), there is no state: when nobody is left to go on
// with, or nobody can, all may as well be started anew. Once in a job: a program that dies there
// every time is not to be blamed on its hosts.
bool ElasticDriver::CanBeginAgain() const {
  if (!policy_.repairs_meetings || IsGang() || has_begun_ || was_begun_again_) return false;
  if (round_.done > 0) return false;
  // Before they connect, a worker that died had its second try.
  return round_.is_open ? round_.fell_apart : round_.has_lost_host && !round_.first_failure;
}

void ElasticDriver::BeginAgain() {
  approach_.next.reset();
  approach_.newcomers.clear();
  if (roster_.counts().living > 0) {
    for (const int host : in_use_) StopWorkers(roster_.LivingOn(host), Duration::zero());
    return;
  }
  Retarget();
  if (!HasEnough(policy_.min_np)) return EnterShort();
  was_begun_again_ = true;
  Say(fmt::format("{}: nobody had a state yet, so all workers are started again",
                  log_.FirstReason()));
  StartAll();
}

void ElasticDriver::EndByLostMeeting() {
  if (round_.done > 0) return EndByDone();
  ChooseCulprit();
  EndBy(EndByFailure(round_.first_failure, log_.FirstReason(), 0));
}

// Members that others have waited for too long in hvd.init(). Each gets a second try.
void ElasticDriver::ExpireMeeting() {
  round_.meet_by = now_ + policy_.elastic_timeout;
  std::vector<WorkerId> late;
  for (const WorkerId worker : round_.members) {
    const Process* process = roster_.Living(worker);
    if (process == nullptr || process->has_met || process->is_told_to_end) continue;
    late.push_back(worker);
    const std::string what =
        fmt::format("{} has not come to hvd.init() within {}", NameOf(process->record),
                    ShowDuration(policy_.elastic_timeout));
    log_.NoteLeaving(registry_.name(process->host()), what);
    Say(what);
  }
  StopWorkers(late, Duration::zero());
}

}  // namespace hvdray
