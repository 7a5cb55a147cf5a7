// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/fixed_launcher.h"

#include <fmt/format.h>

#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "launcher/driver/gang_driver.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/driver_loop.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/host_table.h"
#include "launcher/engine/job_launcher.h"
#include "launcher/engine/kv_bridge.h"
#include "launcher/engine/object_feed.h"
#include "launcher/engine/start_sequence.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

void LogStateChange(const StateChange& change) {
  const std::string who = change.rank < 0 ? "gang" : fmt::format("rank {}", change.rank);
  Log(LogLevel::kDebug, fmt::format("driver[gen={}]", change.generation), "{}: {} -> {}", who,
      change.from, change.to);
}

class FixedLauncher final : public JobLauncher,
                            private AgentSet::Owner,
                            private StartSequence::Owner {
 public:
  FixedLauncher(Loop& loop, Transport& transport, Trace& trace, LaunchPlan plan)
      : JobLauncher(loop, trace, std::move(plan), "rank"),
        agents_(loop, transport, Names(plan_.hosts), plan_.build, ToWelcome(plan_), *this),
        kv_(agents_),
        start_(loop, trace, plan_, hosts_, *this),
        objects_(ObjectFeed::Hosts::kFixed, agents_) {
    for (size_t i = 0; i < plan_.hosts.size(); ++i) {
      const auto host = static_cast<int>(i);
      hosts_.Connect(host, plan_.hosts[i], host);
      hosts_.At(host).is_remote = plan_.is_remote[i];
    }
    progress_.host_count = hosts_.size();
    progress_.np = static_cast<int>(plan_.ranks.size());
  }

  Status Open(std::optional<ServeOptions> serve) override {
    HVDRAY_RETURN_IF_ERROR(OpenClient(std::move(serve)));
    if (client_->is_one_gang()) {
      gang_ = std::make_unique<Gang>(*this, ToGangPolicy(plan_.spec, plan_.place), plan_.ranks,
                                     plan_.place.start_clock.value_or(plan_.began));
    }
    return OpenConsole();
  }

  void HostLeaves(const std::string& /*host*/, Duration /*in*/) override {}

 private:
  /// One gang, and the way to its driver.
  struct Gang {
    Gang(FixedLauncher& owner, GangPolicy policy, std::vector<RankInfo> places, TimePoint began)
        : ranks(std::move(places)),
          driver(std::move(policy), ranks, began, &LogStateChange),
          loop(owner.loop_, driver, owner) {}
    const std::vector<RankInfo> ranks;
    GangDriver driver;
    DriverLoop<FixedLauncher, GangDriver, Event, Effect> loop;
  };

  void Feed(Event fact) {
    if (gang_) return gang_->loop.Feed(std::move(fact));
    OnFact(fact, loop_.Now());  // between two gangs
  }

  AgentSet& agents() override { return agents_; }
  KvBridge& kv() override { return kv_; }
  ObjectFeed& objects() override { return objects_; }

  void Start() override {
    Log(LogLevel::kInfo, "launcher", "starting agents on {}", CompressHostList(Names(plan_.hosts)));
    OnIdle();
    agents_.StartAll();
    if (gang_) gang_->loop.Start();
  }

  void OnReady(int host, const wire::HostFacts& facts) override {
    hosts_.At(host).facts = facts;
    Log(LogLevel::kInfo, "host " + plan_.hosts[static_cast<size_t>(host)].host,
        "its agent is ready: process {}, {} CPUs", facts.agent_pid, facts.cpu_count);
    ++progress_.hosts_ready;
    objects_.Join(host);
    Feed(event::HostReady{host, facts});
    client_->OnTaken();  // objects first: the gang may begin with them
    SendWarm(host);      // before the gang, which may wait for it
    if (pending_start_ && progress_.hosts_ready == hosts_.size()) BeginGang();
  }

  void OnLost(int host, Status why) override {
    kv_.DropAgent(host);
    start_.Drop();
    lost_.emplace(host, why);
    objects_.Leave(host);
    if (pending_start_) RefuseStart(ErrorOfHost(plan_.hosts[static_cast<size_t>(host)].host, why));
    if (warming_.contains(host)) AnswerWarm(host, {.why = why.message()});
    Feed(event::HostLost{host, std::move(why)});
    client_->OnTaken();
  }

  void OnOutputRoom(int /*host*/) override { client_->OnTaken(); }

  void OnControlRoom(int host) override { kv_.OnRoom(host); }

  void OnNoise(int host, ByteView line) override {
    console_->output().Say(
        NoticeLine(LogLevel::kInfo, plan_.hosts[static_cast<size_t>(host)].host, line));
  }

  void FeedError(int rank, LastError error, std::optional<Duration> age) override {
    Feed(event::WorkerErred{generation_, rank, std::move(error), age});
  }

  void FeedUserEvent(UserEvent event) override {
    std::visit([this](auto&& one) { Feed(std::forward<decltype(one)>(one)); }, std::move(event));
  }

  void OnForwardSignal(int signo) override {
    if (progress_.workers_started > 0)
      return agents_.SendAll({generation_, wire::Signal{-1, signo}});
    console_->Say("no worker yet to receive the signal");
  }

  void RecordReport(int rank, uint32_t number, const Json& metrics) override {
    observers_.OnReport(generation_, rank, number, metrics);
  }

  void SendStep(int host, wire::Body body) override {
    agents_.Send(host, {generation_, std::move(body)});
  }
  void OnStepFailed(int host, Status why) override { Feed(event::HostLost{host, std::move(why)}); }
  void OnCopying(bool is_active) override { Feed(event::Copying{is_active}); }
  void OnSynced(int host, const SyncStats& stats) override { Feed(event::HostSynced{host, stats}); }

  friend DriverLoop<FixedLauncher, GangDriver, Event, Effect>;
  void OnFact(const Event& event, TimePoint now) {
    if (!is_repeating_) observers_.OnEvent(event, now);
  }
  void OnEffect(const Effect& effect, TimePoint now) { observers_.OnEffect(effect, now); }
  void OnLate(const Event& event) { AddLateFault(verdict_, event); }

  // ---- gangs of a client

  // All agents are ready or lost, and no link is full.
  bool HasObjectRoom() override {
    for (int host = 0; host < hosts_.size(); ++host) {
      if (IsAwaited(host)) {
        LimitObjectWait();
        return false;
      }
    }
    return objects_.HasRoom();
  }

  bool IsAwaited(int host) const { return !agents_.IsReady(host) && !lost_.contains(host); }

  // An object holds up what its client says, even a bye, so it does not wait for ever.
  void LimitObjectWait() {
    if (object_timer_.is_active()) return;
    AfterStartTimeout(object_timer_, loop_.Now(), [this] {
      for (int host = 0; host < hosts_.size(); ++host) {
        if (!IsAwaited(host)) continue;
        agents_.Release(host);
        OnLost(host, {ErrorCode::kConnectTimeout,
                      fmt::format("host {}: not ready after {} (--start-timeout)",
                                  plan_.hosts[static_cast<size_t>(host)].host,
                                  ShowDuration(*plan_.spec.start_timeout))});
      }
    });
  }

  // Nothing can start any more.
  Status CheckHosts() const {
    if (serve_end_.is_asked()) return {ErrorCode::kCancelled, "hvdray serve is ending"};
    if (lost_.empty()) return {};
    const auto& [number, why] = *lost_.begin();
    const std::string host = "host " + plan_.hosts[static_cast<size_t>(number)].host;
    std::string_view cause = why.message();
    if (cause.starts_with(host + ": ")) cause.remove_prefix(host.size() + 2);
    return {ErrorCode::kAgentLost, fmt::format("{} is lost: {}", host, cause),
            "start another hvdray serve"};
  }

  Status TakeHosts(const control::Hosts& /*hosts*/) override {
    return {ErrorCode::kUsage, "the hosts do not come from the client",
            "--host-source control, with --min-np"};
  }

  Status NotifyWorker(int /*worker*/, int64_t /*timestamp*/) override {
    return {ErrorCode::kUsage, "the hosts of this gang never change", "--min-np makes it elastic"};
  }

  Status WarmHosts(const control::Warm& warm) override {
    HVDRAY_RETURN_IF_ERROR(CheckHosts());
    if (!warming_.empty()) {
      return {ErrorCode::kUsage, "hosts are still importing for the last request"};
    }
    HVDRAY_ASSIGN_OR_RETURN(warm_env_, EnvironmentOf(warm.env));
    plan_.spec.preload.Set(warm.preload, "control");
    for (int host = 0; host < hosts_.size(); ++host) warming_.insert(host);
    for (int host = 0; host < hosts_.size(); ++host) {
      if (agents_.IsReady(host)) SendWarm(host);
    }
    return {};
  }

  void SendWarm(int host) {
    if (!warming_.contains(host)) return;
    // That of the gang is for its restarts.
    const auto env = std::exchange(plan_.spec.env, {});
    plan_.spec.env.Set(warm_env_, "control");
    agents_.Send(host, {0, WarmOrder(plan_, hosts_.At(host))});
    plan_.spec.env = env;
  }

  void AnswerWarm(int host, const wire::Warmed& warmed) {
    warming_.erase(host);
    client_->OnWarmed(plan_.hosts[static_cast<size_t>(host)].host, warmed, warming_.size());
  }

  Status StartGang(const control::Start& start) override {
    HVDRAY_RETURN_IF_ERROR(CheckHosts());
    const int np = start.np != 0 ? start.np : static_cast<int>(plan_.ranks.size());
    HVDRAY_ASSIGN_OR_RETURN(pending_ranks_, AssignRanks(plan_.hosts, np, np));
    HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> env, EnvironmentOf(start.env));
    plan_.spec.env.Set(std::move(env), "control");
    pending_start_ = true;
    if (progress_.hosts_ready == hosts_.size()) {
      BeginGang();
      return {};
    }
    AfterStartTimeout(start_timer_, loop_.Now(), [this] {
      RefuseStart({ErrorCode::kConnectTimeout,
                   fmt::format("not all hosts are ready after {} (--start-timeout)",
                               ShowDuration(*plan_.spec.start_timeout))});
    });
    return {};
  }

  // `timer`: a member.
  void AfterStartTimeout(Watch& timer, TimePoint began, const std::function<void()>& on_late) {
    const Duration held_up = plan_.place.held_up ? plan_.place.held_up() : Duration::zero();
    timer =
        loop_.After(began + *plan_.spec.start_timeout + held_up - loop_.Now(), [=, this, &timer] {
          if (plan_.place.held_up && plan_.place.held_up() > held_up) {
            return AfterStartTimeout(timer, began, on_late);
          }
          on_late();
        });
  }

  void RefuseStart(const Status& why) {
    pending_start_ = false;
    start_timer_.Cancel();
    client_->OnRefused(why);
  }

  // All hosts are ready.
  void BeginGang() {
    pending_start_ = false;
    start_timer_.Cancel();
    GangPolicy policy = ToGangPolicy(plan_.spec, plan_.place);
    policy.last_generation = generation_;
    is_sigint_first_ = false;
    earlier_failures_.clear();
    gang_ =
        std::make_unique<Gang>(*this, std::move(policy), std::move(pending_ranks_), loop_.Now());
    progress_.np = static_cast<int>(gang_->ranks.size());
    gang_->loop.Start();
    is_repeating_ = true;
    for (int host = 0; host < hosts_.size(); ++host) {
      Feed(event::HostReady{host, hosts_.At(host).facts});
    }
    is_repeating_ = false;
  }

  void Dismiss(Duration grace) override {
    if (pending_start_) return RefuseStart({ErrorCode::kCancelled, "stopped before it started"});
    if (gang_) Feed(event::Dismissed{grace});
  }

  // The gang's workers are gone, and their output has arrived.
  void EndGang(const effect::Finish& finish) {
    verdict_ = finish.verdict;
    gang_->loop.Finish();
    start_.Drop();
    const JobReport report = MakeReport();
    workers_->ClearChannels();
    serve_end_.OnGangEnded(finish.verdict);
    // We are in its own loop, which goes on for a moment.
    std::shared_ptr<Gang> ended = std::move(gang_);
    client_->OnStopped(report);
    loop_.Post([this, ended] {
      if (serve_end_.is_asked()) FinishServing();
    });
  }

  bool HasGang() const override { return gang_ != nullptr; }

  void EndServing(const Cause& cause) override {
    if (pending_start_) RefuseStart({ErrorCode::kCancelled, "hvdray serve is ending"});
    JobLauncher::EndServing(cause);
  }

  // ---- effects

  void Apply(const effect::StartGeneration& start) {
    generation_ = start.generation;
    errors_.Clear();
    workers_->ClearChannels();
    console_->SetGeneration(generation_);
    progress_.workers_started = 0;
    NoteEarlierFailure();
    for (const RankInfo& rank : start.ranks) {
      workers_->guard().Admit(rank.rank, rank.host_index, start.generation);
    }
    console_->output().StartGeneration(start.ranks);
    started_ = start;
    start_.Begin(start.generation);
  }

  // Called before the next attempt's output replaces the last one's.
  void NoteEarlierFailure() {
    const std::optional<WorkerRecord>& failure = gang_->driver.earlier_failure();
    if (!failure) return;
    earlier_failures_.push_back({*failure, console_->output().LastWordsOf(failure->rank)});
    if (earlier_failures_.size() > kMaxEarlierFailures) earlier_failures_.pop_front();
  }

  void OnMayStart() override {
    Log(LogLevel::kInfo, "launcher", "starting ranks 0 to {} on {} (generation {})",
        started_.ranks.size() - 1, CompressHostList(Names(plan_.hosts)), generation_);
    const std::vector<RankInfo> ranks = RanksForWorkers(plan_, started_.ranks);
    effect::StartWorkers start{.generation = generation_,
                               .workers = {},
                               .restart_count = started_.restart_count,
                               .master_port = started_.master_port};
    for (const RankInfo& place : ranks) start.workers.push_back({kNoWorker, place});
    kv_.Reset(ranks, generation_);
    auto messages = StartMessages(plan_, start, ranks, hosts_);
    if (generation_ == 1) SayThreads(messages);
    for (auto& [host, message] : messages) {
      agents_.Send(host, {generation_, wire::KvReset{}});
      agents_.Send(host, {generation_, std::move(message)});
    }
    TellWorkers();
    // A later generation gets no stdin, since the stream is half read.
    const auto& reader = *plan_.spec.stdin_rank;
    reader&& generation_ == 1 ? workers_->StartStdin(*reader) : workers_->DropStdin();
  }

  void TellWorkers() {
    std::vector<int> workers;
    client_->OnNoWorkers();
    for (const RankInfo& place : started_.ranks) {
      client_->OnWorker(place.rank, place);
      workers.push_back(place.rank);
    }
    client_->OnMembers(started_.ranks, workers);
  }

  void Apply(const effect::StopGeneration& stop) {
    start_.Drop();
    for (const RankInfo& info : started_.ranks) TellEnd(info.rank, stop.grace);
    const std::vector<wire::Body> orders = console_->StopOrders(stop.grace, is_sigint_first_);
    for (const int host : stop.hosts) {
      for (const wire::Body& order : orders) agents_.Send(host, {stop.generation, order});
    }
  }

  void Apply(const effect::Say& say) { console_->Say(say.text); }

  void Apply(const effect::Finish& finish) {
    if (!client_->is_one_gang()) return EndGang(finish);
    verdict_ = finish.verdict;
    gang_->loop.Finish();
    start_.Drop();
    FinishConsole();
  }

  std::vector<uint32_t> LostPidsHere() override {
    std::vector<uint32_t> pids;
    for (const auto& [number, why] : lost_) {
      const JobHost& host = hosts_.At(number);
      if (!host.is_remote) pids.push_back(host.facts.agent_pid);
    }
    return pids;
  }

  // Of the objects of a client that has gone, another one with that number may be its successor's.
  void OnObjectProblem(int host, uint32_t client, const wire::ObjectProblem& problem) {
    objects_.OnMapped(host, problem.object);
    if (problem.error == 0 || client != client_->gone_clients()) return;
    client_->OnObjectProblem(problem.object, plan_.hosts[static_cast<size_t>(host)].host,
                             problem.error);
  }

  void OnMessage(int host, wire::Message&& message) override {
    if (const auto* problem = std::get_if<wire::ObjectProblem>(&message.body)) {
      return OnObjectProblem(host, message.generation, *problem);
    }
    if (OnCommon(host, message)) return;
    const Generation generation = message.generation;
    if (const auto* started = std::get_if<wire::WorkerStarted>(&message.body)) {
      if (generation == generation_) ++progress_.workers_started;
      Feed(event::WorkerStarted{generation, started->rank, started->pid});
      if (generation == generation_) client_->OnWorkerStarted(started->rank, started->pid);
    } else if (const auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
      Log(LogLevel::kInfo, "launcher", "rank {} {}", exited->rank, Describe(exited->status));
      if (generation == generation_ && !exited->status.is_success()) {
        errors_.OnFailed(console_->output(), *exited, OtherRanks());
      }
      if (generation == generation_) workers_->OnExited(exited->rank);
      Feed(event::WorkerExited{generation, exited->rank, exited->status, exited->was_stopping});
    } else if (const auto* stopped = std::get_if<wire::GenerationStopped>(&message.body)) {
      hosts_.At(host).relay = stopped->relay;
      hosts_.At(host).facts.offered_port = stopped->offered_port;
      Feed(event::GenerationStopped{generation, host, stopped->swept, stopped->offered_port});
    } else if (const auto* warmed = std::get_if<wire::Warmed>(&message.body)) {
      OnWarmedHost(host, generation, *warmed);
    } else if (!start_.OnMessage(host, message)) {
      Log(LogLevel::kDebug, "launcher", "ignored {} from {}",
          wire::Name(wire::TypeOf(message.body)), plan_.hosts[static_cast<size_t>(host)].host);
    }
  }

  void OnWarmedHost(int host, Generation generation, const wire::Warmed& warmed) {
    const std::string& name = plan_.hosts[static_cast<size_t>(host)].host;
    observers_.OnWarmed(name, generation, warmed);
    OnWarmed(name, warmed);
    if (generation == 0 && warming_.contains(host)) AnswerWarm(host, warmed);
  }

  // Workers that may have printed errors when the first one fails.
  std::vector<int> OtherRanks() const {
    std::vector<int> ranks(errors_.has_failed() ? 0 : started_.ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  JobReport MakeReport() override {
    LastWords last;
    if (verdict_.first_failure) {
      last = console_->output().LastWordsOf(verdict_.first_failure->rank);
    }
    JobReport report = BeginReport(std::move(last));
    report.np = progress_.np;
    report.generations = generation_;
    report.hosts = hosts_.Report();
    report.earlier_failures.assign(earlier_failures_.begin(), earlier_failures_.end());
    return report;
  }

  AgentSet agents_;
  KvBridge kv_;
  HostTable hosts_;
  StartSequence start_;
  effect::StartGeneration started_{};  // the latest
  std::map<int, Status> lost_;         // and why
  std::deque<EarlierFailure> earlier_failures_;
  Generation generation_ = 0;
  ObjectFeed objects_;
  std::unique_ptr<Gang> gang_;  // null: between two of a client's

  // Of a client with more than one gang.
  bool pending_start_ = false;  // until all hosts are ready
  std::vector<RankInfo> pending_ranks_;
  Watch start_timer_;
  Watch object_timer_;                 // of the first object that came before all hosts were ready
  std::vector<std::string> warm_env_;  // of the client's last order to warm
  std::set<int> warming_;              // hosts that have not answered it
  bool is_repeating_ = false;          // facts that observers know
};

}  // namespace

std::unique_ptr<JobLauncher> MakeFixedLauncher(Loop& loop, Transport& transport, Trace& trace,
                                               LaunchPlan plan) {
  return std::make_unique<FixedLauncher>(loop, transport, trace, std::move(plan));
}

}  // namespace hvdray
