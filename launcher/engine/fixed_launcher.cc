// SPDX-License-Identifier: Apache-2.0
// The launcher of jobs of fixed size: applies what GangDriver decides.
#include <fmt/format.h>

#include <deque>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "launcher/driver/gang_driver.h"
#include "launcher/engine/driver_loop.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/engine/fixed_agents.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/job_launcher.h"
#include "launcher/job/hostfile.h"
#include "launcher/job/value_text.h"

namespace hvdray {
namespace {

void LogStateChange(const StateChange& change) {
  const std::string who = change.rank < 0 ? "gang" : fmt::format("rank {}", change.rank);
  Log(LogLevel::kDebug, fmt::format("driver[gen={}]", change.generation), "{}: {} -> {}", who,
      change.from, change.to);
}

class FixedLauncher final : public JobLauncher, private FixedAgents::Owner {
 public:
  FixedLauncher(Loop& loop, Transport& transport, Trace& trace, LaunchPlan plan)
      : JobLauncher(loop, trace, std::move(plan), "rank"),
        agents_(loop, transport, trace, plan_, *this, *this),
        start_limit_(loop, plan_) {
    progress_.host_count = agents_.hosts().size();
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
  /// One gang: its driver, what the driver orders, and the ranks that were started last. All of it
  /// goes with the gang; the number of its generation is the launcher's, since the next one's is
  /// higher.
  class Gang {
   public:
    Gang(FixedLauncher& owner, GangPolicy policy, std::vector<RankInfo> ranks, TimePoint began)
        : owner_(owner),
          ranks_(std::move(ranks)),
          driver_(std::move(policy), ranks_, began, &LogStateChange),
          loop_(owner.loop_, driver_, *this) {}

    int size() const { return static_cast<int>(ranks_.size()); }
    void Start() { loop_.Start(); }
    void Feed(Event fact) { loop_.Feed(std::move(fact)); }
    /// A host has been ready before the gang began, as observers know.
    void Repeat(int host, const wire::HostFacts& facts) {
      is_repeating_ = true;
      Feed(event::HostReady{host, facts});
      is_repeating_ = false;
    }
    std::vector<int> StartedRanks() const {
      std::vector<int> ranks(started_.ranks.size());
      std::iota(ranks.begin(), ranks.end(), 0);
      return ranks;
    }

    /// The steps before are done.
    void StartWorkers() {
      Log(LogLevel::kInfo, "launcher", "starting ranks 0 to {} on {} (generation {})",
          started_.ranks.size() - 1, CompressHostList(Names(owner_.plan_.hosts)),
          started_.generation);
      const std::vector<RankInfo> ranks = RanksForWorkers(owner_.plan_, started_.ranks);
      effect::StartWorkers start{.generation = started_.generation,
                                 .workers = {},
                                 .restart_count = started_.restart_count,
                                 .master_port = started_.master_port};
      for (const RankInfo& place : ranks) start.workers.push_back({kNoWorker, place});
      owner_.agents_.kv().Reset(ranks, start.generation);
      auto messages = StartMessages(owner_.plan_, start, ranks, owner_.agents_.hosts());
      const bool is_first = start.generation == 1;
      if (is_first) owner_.SayThreads(messages);
      for (auto& [host, message] : messages) {
        owner_.agents_.links().Send(host, {start.generation, wire::KvReset{}});
        owner_.agents_.links().Send(host, {start.generation, std::move(message)});
      }
      TellWorkers();
      // A later generation gets no stdin, since the stream is half read.
      const auto& reader = *owner_.plan_.spec.stdin_rank;
      reader&& is_first ? owner_.workers_->StartStdin(*reader) : owner_.workers_->DropStdin();
    }

    // ---- of DriverLoop

    void OnFact(const Event& event, TimePoint now) {
      if (!is_repeating_) owner_.observers_.OnEvent(event, now);
    }
    void OnEffect(const Effect& effect, TimePoint now) { owner_.observers_.OnEffect(effect, now); }
    void OnLate(const Event& event) { AddLateFault(owner_.verdict_, event); }
    void OnIdle() { owner_.OnIdle(); }

    void Apply(const effect::StartGeneration& start) {
      owner_.generation_ = start.generation;
      owner_.errors_.Clear();
      owner_.workers_->ClearChannels();
      owner_.console_->SetGeneration(start.generation);
      owner_.progress_.workers_started = 0;
      NoteEarlierFailure();
      for (const RankInfo& rank : start.ranks) {
        owner_.workers_->guard().Admit(rank.rank, rank.host_index, start.generation);
      }
      owner_.console_->output().StartGeneration(start.ranks);
      started_ = start;
      owner_.agents_.BeginSteps(start.generation);
    }

    void Apply(const effect::StopGeneration& stop) {
      owner_.agents_.steps().Drop();
      for (const RankInfo& info : started_.ranks) owner_.workers_->TellEnd(info.rank, stop.grace);
      const std::vector<wire::Body> orders =
          owner_.console_->StopOrders(stop.grace, owner_.is_sigint_first_);
      for (const int host : stop.hosts) {
        for (const wire::Body& order : orders) {
          owner_.agents_.links().Send(host, {stop.generation, order});
        }
      }
    }

    void Apply(const effect::Say& say) { owner_.console_->Say(say.text); }

    void Apply(const effect::Finish& finish) {
      owner_.verdict_ = finish.verdict;
      loop_.Finish();
      owner_.agents_.steps().Drop();
      owner_.client_->is_one_gang() ? owner_.FinishConsole() : owner_.EndGang();
    }

   private:
    void TellWorkers() {
      std::vector<int> workers;
      owner_.client_->OnNoWorkers();
      for (const RankInfo& place : started_.ranks) {
        owner_.client_->OnWorker(place.rank, place);
        workers.push_back(place.rank);
      }
      owner_.client_->OnMembers(started_.ranks, workers);
    }

    // Called before the next attempt's output replaces the last one's.
    void NoteEarlierFailure() {
      const std::optional<WorkerRecord>& failure = driver_.earlier_failure();
      if (!failure) return;
      auto& failures = owner_.earlier_failures_;
      failures.push_back({*failure, owner_.console_->output().LastWordsOf(failure->rank)});
      if (failures.size() > kMaxEarlierFailures) failures.pop_front();
    }

    FixedLauncher& owner_;
    const std::vector<RankInfo> ranks_;
    GangDriver driver_;
    DriverLoop<Gang, GangDriver, Event, Effect> loop_;
    effect::StartGeneration started_{};  // the latest
    bool is_repeating_ = false;          // facts that observers know
  };

  void Feed(Event fact) override {
    if (gang_) return gang_->Feed(std::move(fact));
    observers_.OnEvent(fact, loop_.Now());  // between two gangs
  }

  JobAgents& agents() override { return agents_; }

  void Start() override {
    Log(LogLevel::kInfo, "launcher", "starting agents on {}", CompressHostList(Names(plan_.hosts)));
    OnIdle();
    agents_.links().StartAll();
    if (gang_) gang_->Start();
  }

  void OnReady(int host, const wire::HostFacts& facts) override {
    ++progress_.hosts_ready;
    Feed(event::HostReady{host, facts});
    client_->OnTaken();  // objects first: the gang may begin with them
    SendWarm(host);      // before the gang, which may wait for it
    if (pending_start_ && agents_.AreAllReady()) BeginGang();
  }

  void OnLost(int host, Status why) override {
    if (pending_start_) RefuseStart(ErrorOfHost(agents_.Name(host), why));
    if (warming_.contains(host)) AnswerWarm(host, {.why = why.message()});
    Feed(event::HostLost{host, std::move(why)});
    client_->OnTaken();
  }

  void FeedError(int rank, LastError error, std::optional<Duration> age) override {
    Feed(event::WorkerErred{generation_, rank, std::move(error), age});
  }

  void FeedUserEvent(UserEvent event) override {
    std::visit([this](auto&& one) { Feed(std::forward<decltype(one)>(one)); }, std::move(event));
  }

  void OnForwardSignal(int signo) override {
    if (progress_.workers_started > 0)
      return agents_.links().SendAll({generation_, wire::Signal{-1, signo}});
    console_->Say("no worker yet to receive the signal");
  }

  void OnReport(int rank, uint32_t number, const Json& metrics) override {
    observers_.OnReport(generation_, rank, number, metrics);
  }

  // ---- gangs of a client

  bool HasObjectRoom() override { return agents_.HasObjectRoom(); }

  // Something can still start.
  Status CheckHosts() const {
    if (serve_end_.is_asked()) return {ErrorCode::kCancelled, "hvdray serve is ending"};
    return agents_.CheckNoneLost();
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
    for (int host = 0; host < agents_.hosts().size(); ++host) warming_.insert(host);
    for (int host = 0; host < agents_.hosts().size(); ++host) {
      if (agents_.links().IsReady(host)) SendWarm(host);
    }
    return {};
  }

  void SendWarm(int host) {
    if (!warming_.contains(host)) return;
    // That of the gang is for its restarts.
    const auto env = std::exchange(plan_.spec.env, {});
    plan_.spec.env.Set(warm_env_, "control");
    agents_.links().Send(host, {0, WarmOrder(plan_, agents_.hosts().At(host))});
    plan_.spec.env = env;
  }

  void AnswerWarm(int host, const wire::Warmed& warmed) {
    warming_.erase(host);
    client_->OnWarmed(agents_.Name(host), warmed, warming_.size());
  }

  Status StartGang(const control::Start& start) override {
    HVDRAY_RETURN_IF_ERROR(CheckHosts());
    const int np = start.np != 0 ? start.np : static_cast<int>(plan_.ranks.size());
    HVDRAY_ASSIGN_OR_RETURN(pending_ranks_, AssignRanks(plan_.hosts, np, np));
    HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> env, EnvironmentOf(start.env));
    plan_.spec.env.Set(std::move(env), "control");
    pending_start_ = true;
    if (agents_.AreAllReady()) {
      BeginGang();
      return {};
    }
    start_limit_.Begin([this] {
      RefuseStart({ErrorCode::kConnectTimeout,
                   fmt::format("not all hosts are ready after {} (--start-timeout)",
                               ShowDuration(*plan_.spec.start_timeout))});
    });
    return {};
  }

  void RefuseStart(const Status& why) {
    pending_start_ = false;
    start_limit_.Cancel();
    client_->OnRefused(why);
  }

  // All hosts are ready.
  void BeginGang() {
    pending_start_ = false;
    start_limit_.Cancel();
    GangPolicy policy = ToGangPolicy(plan_.spec, plan_.place);
    policy.last_generation = generation_;
    is_sigint_first_ = false;
    earlier_failures_.clear();
    gang_ =
        std::make_unique<Gang>(*this, std::move(policy), std::move(pending_ranks_), loop_.Now());
    progress_.np = gang_->size();
    gang_->Start();
    // It may end before it knows of hosts without workers.
    for (int host = 0; gang_ && host < agents_.hosts().size(); ++host) {
      gang_->Repeat(host, agents_.hosts().At(host).facts);
    }
  }

  void Dismiss(Duration grace) override {
    if (pending_start_) return RefuseStart({ErrorCode::kCancelled, "stopped before it started"});
    if (gang_) Feed(event::Dismissed{grace});
  }

  // The gang's workers are gone, and their output has arrived.
  void EndGang() {
    serve_end_.OnGangEnded(verdict_);
    const JobReport report = MakeReport();  // takes the verdict
    workers_->ClearChannels();
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

  void OnMayStart() override { gang_->StartWorkers(); }

  // Of the objects of a client that has gone, another one with that number may be its successor's.
  void OnObjectProblem(int host, uint32_t client, const wire::ObjectProblem& problem) {
    agents_.objects().OnMapped(host, problem.object);
    if (problem.error == 0 || client != client_->gone_clients()) return;
    client_->OnObjectProblem(problem.object, agents_.Name(host), problem.error);
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
      if (generation == generation_ && gang_ && !exited->status.is_success()) {
        // Others may have printed errors when the first one fails.
        errors_.OnFailed(console_->output(), *exited,
                         errors_.has_failed() ? std::vector<int>() : gang_->StartedRanks());
      }
      if (generation == generation_) workers_->OnExited(exited->rank);
      Feed(event::WorkerExited{generation, exited->rank, exited->status, exited->was_stopping});
    } else if (const auto* stopped = std::get_if<wire::GenerationStopped>(&message.body)) {
      agents_.hosts().At(host).relay = stopped->relay;
      agents_.hosts().At(host).facts.offered_port = stopped->offered_port;
      Feed(event::GenerationStopped{generation, host, stopped->swept, stopped->offered_port});
    } else if (const auto* warmed = std::get_if<wire::Warmed>(&message.body)) {
      OnWarmed(agents_.Name(host), generation, *warmed);
      if (generation == 0 && warming_.contains(host)) AnswerWarm(host, *warmed);
    } else if (!agents_.steps().OnMessage(host, message)) {
      Log(LogLevel::kDebug, "launcher", "ignored {} from {}",
          wire::Name(wire::TypeOf(message.body)), agents_.Name(host));
    }
  }

  JobReport MakeReport() override {
    LastWords last;
    if (verdict_.first_failure) {
      last = console_->output().LastWordsOf(verdict_.first_failure->rank);
    }
    JobReport report = BeginReport(std::move(last));
    report.np = progress_.np;
    report.generations = generation_;
    report.hosts = agents_.hosts().Report();
    report.earlier_failures.assign(earlier_failures_.begin(), earlier_failures_.end());
    return report;
  }

  FixedAgents agents_;
  std::deque<EarlierFailure> earlier_failures_;
  Generation generation_ = 0;
  std::unique_ptr<Gang> gang_;  // null: between two of a client's

  // Of a client with more than one gang.
  bool pending_start_ = false;  // until all hosts are ready
  std::vector<RankInfo> pending_ranks_;
  StartLimit start_limit_;
  std::vector<std::string> warm_env_;  // of the client's last order to warm
  std::set<int> warming_;              // hosts that have not answered it
};

}  // namespace

std::unique_ptr<JobLauncher> MakeFixedLauncher(Loop& loop, const JobReach& reach, Trace& trace,
                                               LaunchPlan plan) {
  return std::make_unique<FixedLauncher>(loop, reach.transport, trace, std::move(plan));
}

}  // namespace hvdray
