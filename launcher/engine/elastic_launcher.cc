// SPDX-License-Identifier: Apache-2.0
// The launcher of elastic jobs: applies the decisions of ElasticDriver, over hosts that come and
// go.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <utility>

#include "base/log.h"
#include "launcher/driver/elastic_mode.h"
#include "launcher/engine/driver_loop.h"
#include "launcher/engine/driver_policies.h"
#include "launcher/engine/elastic_agents.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/job_launcher.h"
#include "launcher/job/hostfile.h"

namespace hvdray {
namespace {

void LogJobStateChange(const StateChange& change) {
  const std::string who = change.rank < 0 ? "job" : fmt::format("rank {}", change.rank);
  Log(LogLevel::kDebug, fmt::format("driver[gen={}]", change.generation), "{}: {} -> {}", who,
      change.from, change.to);
}

// In gang mode a process keeps its rank for life.
KvBridge::Hold HoldOf(const ElasticPolicy& policy) {
  if (policy.mode == ElasticMode::kGang) return KvBridge::Hold::kNothing;
  return policy.repairs_barriers ? KvBridge::Hold::kRanksAndBarrier : KvBridge::Hold::kRanks;
}

class ElasticLauncher final : public JobLauncher,
                              private ElasticAgents::Owner,
                              private KvBridge::Listener {
 public:
  ElasticLauncher(Loop& loop, const JobReach& reach, Trace& trace, LaunchPlan plan)
      : JobLauncher(loop, trace, std::move(plan), "worker"),
        source_(*reach.source),
        told_(reach.told),
        policy_(ToElasticPolicy(plan_.spec, plan_.began_wall)),
        agents_(loop, reach, plan_, HoldOf(policy_), *this, *this, *this) {}

  Status Open(std::optional<ServeOptions> serve) override {
    HVDRAY_RETURN_IF_ERROR(OpenClient(std::move(serve)));
    if (client_->is_one_gang()) job_ = std::make_unique<Job>(*this, policy_);
    HVDRAY_RETURN_IF_ERROR(OpenConsole());
    if (!job_) return {};
    HVDRAY_RETURN_IF_ERROR(job_->OpenRecord());
    return StartSource();
  }

  void HostLeaves(const std::string& host, Duration in) override {
    HostTable& hosts = agents_.hosts();
    for (int i = 0; i < hosts.size(); ++i) {
      if (hosts.At(i).slots.host == host) Feed(event::HostLeaving{i, in});
    }
  }

 private:
  /// One job: its driver, what the driver orders, and which workers live where. All of it goes with
  /// the job; what the next one must not repeat, numbers of generations and workers, is the
  /// launcher's.
  class Job {
   public:
    Job(ElasticLauncher& owner, const ElasticPolicy& policy)
        : owner_(owner),
          policy_(policy),
          began_(owner.loop_.Now()),
          driver_(MakeElasticDriver(policy, jitter_seed_, began_, &LogJobStateChange)),
          loop_(owner.loop_, *driver_, *this) {}

    Status OpenRecord() {
      return owner_.observers_.OpenRecord(
          owner_.plan_, policy_, jitter_seed_, began_, [&owner = owner_](Status why) {
            owner.FeedUserEvent(event::OutputDamaged{std::move(why)});
          });
    }
    void Start() { loop_.Start(); }
    void Feed(ElasticEvent fact) { loop_.Feed(std::move(fact)); }
    Generation published() const { return published_; }

    /// That worker lives, with that rank; -1: any.
    bool IsLiving(int worker, int rank = -1) const {
      const auto living = living_.find(worker);
      return living != living_.end() && (rank < 0 || living->second.rank == rank);
    }
    /// Its workers are lost with `agent`.
    void OnLeft(int agent) {
      std::erase_if(living_, [&](const auto& living) {
        if (owner_.workers_->guard().AgentOf(living.first) != agent) return false;
        Forget(living.second);
        return true;
      });
    }

    void OnExited(const wire::WorkerExited& exited) {
      const WorkerRecord& record = RecordOf(exited.rank);
      Log(LogLevel::kInfo, "launcher", "{} {}", Name(record), Describe(exited.status));
      owner_.workers_->OnExited(exited.rank);
      if (const auto living = living_.extract(exited.rank); !living.empty())
        Forget(living.mapped());
      if (!exited.status.is_success()) {
        failed_.push_back(exited.rank);
        std::vector<int> others;
        if (!owner_.errors_.has_failed()) {
          for (const auto& [worker, place] : living_) others.push_back(worker);
        }
        owner_.errors_.OnFailed(owner_.console_->output(), exited, others);
      }
      owner_.Feed(event::ProcessExited{static_cast<WorkerId>(exited.rank), exited.status});
    }

    // Always of a mixed change, as the driver's own notices, and for the same reason.
    Status Notify(WorkerId worker, int64_t timestamp) {
      const WorkerRoster::Process* process = driver_->roster().Living(worker);
      if (process == nullptr || !process->is_registered) {
        return {ErrorCode::kUsage, fmt::format("worker {} has not registered for notices", worker)};
      }
      Log(LogLevel::kInfo, "serve", "notice to worker {}, as the client asks", worker);
      last_notice_ = std::max(last_notice_, timestamp);
      OnEffect(effect::Notify{worker, process->host(), timestamp, UpdateCode::kMixed},
               owner_.loop_.Now());
      SendNotice(worker, timestamp, UpdateCode::kMixed);
      return {};
    }

    LastWords LastWordsOf(const WorkerRecord& failure) {
      for (const int worker : failed_) {
        const WorkerRecord& record = RecordOf(worker);
        if (record.pid == failure.pid && record.host == failure.host) {
          return owner_.console_->output().LastWordsOf(worker);
        }
      }
      return {};
    }

    // Gang mode: the first failure of each generation but the last.
    std::vector<EarlierFailure> EarlierFailures() {
      std::vector<EarlierFailure> failures;
      if (policy_.mode != ElasticMode::kGang) return failures;
      Generation newest = 0;
      for (const int worker : failed_) {
        const WorkerRecord& record = RecordOf(worker);
        if (record.generation <= newest || record.generation >= published_) continue;
        if (record.is_victim) continue;  // stopped for others, or because hosts have changed
        newest = record.generation;
        failures.push_back({record, owner_.console_->output().LastWordsOf(worker)});
      }
      if (failures.size() > kMaxEarlierFailures) {
        failures.erase(failures.begin(), failures.end() - kMaxEarlierFailures);
      }
      return failures;
    }

    // ---- of DriverLoop

    void OnFact(const ElasticEvent& event, TimePoint now) { owner_.observers_.OnEvent(event, now); }
    void OnEffect(const ElasticEffect& effect, TimePoint now) {
      owner_.observers_.OnEffect(effect, now);
    }
    void OnLate(const ElasticEvent& event) {
      const std::optional<Event> late = AsStatic(event);
      if (late) AddLateFault(owner_.verdict_, *late);
    }
    void OnIdle() { owner_.OnIdle(); }

    void Apply(const effect::ConnectHost& connect) {
      owner_.agents_.Connect(connect.host, connect.slots);
    }

    void Apply(const effect::ReleaseHost& release) {
      owner_.agents_.Release(release.host, owner_.newest_);
    }

    void Apply(const effect::PublishGeneration& publish) {
      owner_.SetNewest(publish.generation);
      published_ = publish.generation;
      ranks_ = publish.ranks;
      owner_.agents_.kv().Reset(publish.ranks, publish.generation);
      for (int host = 0; host < owner_.agents_.hosts().size(); ++host) {
        if (owner_.agents_.hosts().At(host).has_workers)
          owner_.agents_.SendTo(host, {published_, wire::KvReset{}});
      }
      owner_.agents_.kv().Release();
      for (size_t rank = 0; rank < publish.workers.size(); ++rank) {
        const auto worker = static_cast<int>(publish.workers[rank]);
        const auto living = living_.find(worker);
        if (living == living_.end() || living->second.rank == static_cast<int>(rank)) continue;
        living->second = publish.ranks[rank];
        owner_.console_->output().MoveWorker(worker, static_cast<int>(rank), living->second.host);
      }
      owner_.client_->OnMembers(publish.ranks, {publish.workers.begin(), publish.workers.end()});
    }

    void Apply(const effect::StartWorkers& start) {
      owner_.SetNewest(start.generation);
      if (Status status = owner_.agents_.hosts().ChooseNics(owner_.agents_.nics()); !status.ok()) {
        Log(LogLevel::kError, "launcher", "{}", status.ToString());
      }
      const bool is_first = start.generation == 1 && start.workers.size() == ranks_.size() &&
                            start.workers.front().worker == 0;
      // Newcomers start before their generation is published.
      const bool is_whole = start.generation == published_;
      const std::vector<RankInfo> whole = is_whole ? ranks_ : std::vector<RankInfo>();
      auto messages = StartMessages(owner_.plan_, start, whole, owner_.agents_.hosts());
      if (is_first) owner_.SayThreads(messages);
      for (auto& [host, message] : messages) {
        JobHost& entry = owner_.agents_.hosts().At(host);
        for (const wire::WorkerSlot& slot : message.workers) {
          owner_.workers_->guard().Admit(slot.worker, entry.agent, start.generation);
        }
        entry.has_workers = true;
        owner_.agents_.SendTo(host, {published_, wire::KvReset{}});
        owner_.agents_.SendTo(host, {start.generation, std::move(message)});
      }
      for (const NewWorker& worker : start.workers) {
        const auto number = static_cast<int>(worker.worker);
        owner_.next_worker_ = std::max(owner_.next_worker_, worker.worker + 1);
        living_[number] = worker.place;
        owner_.agents_.kv().Admit(worker.place.host, worker.place.local_rank);
        owner_.console_->output().StartWorker(number, worker.place.rank, worker.place.host);
        // A later generation gets no stdin, since the stream is half read.
        if (is_first && *owner_.plan_.spec.stdin_rank == worker.place.rank)
          owner_.workers_->StartStdin(number);
        owner_.client_->OnWorker(number, worker.place);
        if (is_whole) owner_.client_->OnMember(number);
      }
      if (!is_first) return;
      owner_.progress_.np = static_cast<int>(start.workers.size());
      owner_.progress_.host_count = owner_.progress_.hosts_ready =
          std::max(1, owner_.agents_.hosts().size());
    }

    void Apply(const effect::OpenBarrier& /*open*/) { owner_.agents_.kv().OpenBarrier(); }

    void Apply(const effect::StopWorkers& stop) {
      std::map<int, wire::StopWorkers> by_agent;
      for (const WorkerId worker : stop.workers) {
        owner_.workers_->TellEnd(static_cast<int>(worker), stop.grace);
        wire::StopWorkers& order =
            by_agent[owner_.workers_->guard().AgentOf(static_cast<int>(worker))];
        order.grace_ms = Milliseconds(stop.grace);
        order.workers.push_back(static_cast<int32_t>(worker));
      }
      for (auto& [agent, order] : by_agent) {
        if (agent >= 0) owner_.agents_.links().Send(agent, {owner_.newest_, std::move(order)});
      }
    }

    void Apply(const effect::BreakConnections& order) {
      for (const int host : order.hosts) {
        owner_.agents_.SendTo(host, {order.generation, wire::BreakConnections{}});
      }
    }

    void Apply(const effect::Notify& notify) {
      // Workers pass over one that is not newer than the last, which the client may have dated.
      last_notice_ = std::max(last_notice_ + 1, notify.timestamp);
      SendNotice(notify.worker, last_notice_, notify.code);
    }

    void Apply(const effect::MembershipChanged& /*change*/) {}  // observers have it

    void Apply(const effect::StopGeneration& stop) {
      owner_.SetNewest(stop.generation);
      owner_.agents_.kv().Close();
      for (const auto& [worker, place] : living_) owner_.workers_->TellEnd(worker, stop.grace);
      const std::vector<wire::Body> orders =
          owner_.console_->StopOrders(stop.grace, owner_.is_sigint_first_);
      for (const int host : stop.hosts) {
        owner_.agents_.hosts().At(host).stopping = stop.generation;
        for (const wire::Body& order : orders)
          owner_.agents_.SendTo(host, {stop.generation, order});
      }
    }

    void Apply(const effect::Say& say) { owner_.console_->Say(say.text); }

    void Apply(const effect::Finish& finish) {
      owner_.verdict_ = finish.verdict;
      loop_.Finish();
      owner_.observers_.OnEnd(owner_.verdict_, driver_->Snapshot());
      if (owner_.client_->is_one_gang()) owner_.source_.Stop();
      owner_.workers_->DropStdin();
      owner_.loop_.Post([&agents = owner_.agents_] { agents.EndReleases(); });
    }

   private:
    void Forget(const RankInfo& place) { owner_.agents_.kv().Forget(place.host, place.local_rank); }
    const WorkerRecord& RecordOf(int worker) const {
      return driver_->roster().Of(static_cast<WorkerId>(worker)).record;
    }
    void SendNotice(WorkerId worker, int64_t timestamp, UpdateCode code) {
      const auto number = static_cast<int32_t>(worker);
      owner_.workers_->Send(number, wire::Notify{number, timestamp, static_cast<uint8_t>(code)});
    }

    ElasticLauncher& owner_;
    const ElasticPolicy policy_;
    const TimePoint began_;
    const uint64_t jitter_seed_{std::random_device{}()};
    const std::unique_ptr<ElasticDriver> driver_;
    DriverLoop<Job, ElasticDriver, ElasticEvent, ElasticEffect> loop_;
    std::map<int, RankInfo> living_;  // Workers with their present places.
    std::vector<int> failed_;         // Failed workers, in order.
    std::vector<RankInfo> ranks_;     // Of the published generation.
    Generation published_ = 0;
    int64_t last_notice_ = 0;  // highest timestamp of its notices
  };

  void Feed(ElasticEvent fact) {
    if (HasGang()) return job_->Feed(std::move(fact));
    observers_.OnEvent(fact, loop_.Now());  // before the client's first job, or between two
  }
  bool HasGang() const override { return job_ && !has_ended_; }
  JobAgents& agents() override { return agents_; }

  void Start() override {
    if (job_) job_->Start();
  }
  struct Found {
    std::vector<HostSlots> hosts;
    bool is_final = false;
  };

  Status StartSource() {
    HostSource::Handlers handlers;
    handlers.on_hosts = [this](std::vector<HostSlots> hosts, bool is_final) {
      agents_.nics().SetFixed(is_final);
      agents_.KeepOnly(hosts);
      found_ = {std::move(hosts), is_final};
      why_none_found_ = {};
      Feed(event::HostsDiscovered{found_->hosts, is_final});
    };
    handlers.on_failure = [this](Status why) {
      why_none_found_ = why;
      Feed(event::DiscoveryFailed{std::move(why)});
    };
    return source_.Start(std::move(handlers));
  }

  // ---- the job of a client

  Status StartGang(const control::Start& start) override {
    if (serve_end_.is_asked()) return {ErrorCode::kCancelled, "hvdray serve is ending"};
    ElasticPolicy policy = policy_;
    if (start.np != 0) policy.np = start.np;
    policy.last_generation = newest_;
    policy.first_worker = next_worker_;
    policy.began_epoch_s +=
        std::chrono::duration_cast<std::chrono::seconds>(loop_.Now() - plan_.began).count();
    HVDRAY_RETURN_IF_ERROR(CheckElasticPolicy(policy));
    HVDRAY_ASSIGN_OR_RETURN(std::vector<std::string> env, EnvironmentOf(start.env));
    plan_.spec.env.Set(std::move(env), "control");
    ForgetJob();
    job_ = std::make_unique<Job>(*this, policy);
    Status status = job_->OpenRecord();
    if (status.ok() && !std::exchange(is_source_started_, true)) status = StartSource();
    if (!status.ok()) {
      job_.reset();
      return status;
    }
    // What the source has said to an earlier job.
    if (found_) Feed(event::HostsDiscovered{found_->hosts, found_->is_final});
    if (!why_none_found_.ok()) Feed(event::DiscoveryFailed{why_none_found_});
    job_->Start();
    return {};
  }

  // Of the job before; its agents are kept.
  void ForgetJob() {
    job_.reset();
    has_ended_ = false;
    is_sigint_first_ = false;
    observers_.Forget();
    errors_.Clear();
    agents_.kv().Open();
  }

  Status WarmHosts(const control::Warm& /*warm*/) override {
    return {ErrorCode::kUsage, "the hosts of an elastic job come with its start", "--preload"};
  }

  Status TakeHosts(const control::Hosts& hosts) override {
    if (told_ == nullptr) {
      return {ErrorCode::kUsage, "the hosts do not come from the client", "--host-source control"};
    }
    std::string lines;
    for (const std::string& host : hosts.hosts) lines += host + '\n';
    std::string warning;
    HVDRAY_ASSIGN_OR_RETURN(
        std::vector<HostSlots> found,
        ParseDiscoveredHosts(lines, *plan_.spec.slots_per_host, &warning, HostFinder::kClient));
    if (!warning.empty()) Log(LogLevel::kWarning, "serve", "{}", warning);
    if (told_->Tell(std::move(found), hosts.is_final)) return {};
    return {ErrorCode::kUsage, "the last list of hosts was final"};
  }

  Status NotifyWorker(int worker, int64_t timestamp) override {
    return job_->Notify(static_cast<WorkerId>(worker), timestamp);
  }

  // Nothing of the job is left.
  void EndJob() {
    has_ended_ = true;
    serve_end_.OnGangEnded(verdict_);
    const JobReport report = MakeReport();
    workers_->ClearChannels();
    agents_.Keep();
    client_->OnStopped(report);
    if (serve_end_.is_asked()) FinishServing();
  }

  void Dismiss(Duration grace) override {
    if (HasGang()) Feed(event::Dismissed{grace});
  }

  void OnServeEnd() override { source_.Stop(); }

  // ---- what others say

  void FeedError(int worker, LastError error, std::optional<Duration> age) override {
    Feed(event::ProcessErred{static_cast<WorkerId>(worker), std::move(error), age});
  }

  void FeedUserEvent(UserEvent event) override {
    std::visit([this](auto&& one) { Feed(std::forward<decltype(one)>(one)); }, std::move(event));
  }

  void OnForwardSignal(int signo) override {
    agents_.links().SendAll({newest_, wire::Signal{-1, signo}});
  }

  void OnReport(int worker, uint32_t number, const Json& metrics) override {
    observers_.OnReport(static_cast<WorkerId>(worker), number, metrics);
  }

  void OnRankAsked(int worker) override { Feed(event::RankAsked{static_cast<WorkerId>(worker)}); }
  void OnRegistered(int worker) override {
    Feed(event::AddressesRegistered{static_cast<WorkerId>(worker)});
  }
  void OnMet(int worker, uint32_t member) override {
    const bool is_its_own = job_ && job_->IsLiving(worker, static_cast<int>(member));
    if (is_its_own) Feed(event::WorkerMet{static_cast<WorkerId>(worker)});
  }
  void OnConnected(int worker) override {
    if (!job_ || !job_->IsLiving(worker)) return;
    Feed(event::WorkerConnected{static_cast<WorkerId>(worker)});
  }

  void OnReady(int host, const wire::HostFacts& facts) override {
    Feed(event::HostReady{host, facts});
  }
  void OnCopying(int host) override { Feed(event::HostCopying{host}); }
  void OnSynced(int host, const SyncStats& stats) override { observers_.OnSynced(host, stats); }
  void OnLost(int host, Status why) override { Feed(event::HostLost{host, std::move(why)}); }

  void OnLeft(int agent) override {
    if (job_) job_->OnLeft(agent);
  }

  void OnReleased() override { client_->is_one_gang() ? FinishConsole() : EndJob(); }

  void SetNewest(Generation generation) {
    newest_ = std::max(newest_, generation);
    workers_->guard().SetNewest(newest_);
    console_->SetGeneration(newest_);
  }

  void OnMessage(int agent, int host, wire::Message&& message) override {
    if (OnCommon(agent, message)) return;
    if (const auto* started = std::get_if<wire::WorkerStarted>(&message.body)) {
      if (message.generation == 1) ++progress_.workers_started;
      client_->OnWorkerStarted(started->rank, started->pid);
      Feed(event::ProcessStarted{static_cast<WorkerId>(started->rank), started->pid});
    } else if (const auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
      job_->OnExited(*exited);
    } else {
      if (host >= 0) OnHostMessage(host, message);
    }
  }

  // Messages about a host, not about a worker's life.
  void OnHostMessage(int host, const wire::Message& message) {
    JobHost& entry = agents_.hosts().At(host);
    if (const auto* stopped = std::get_if<wire::GenerationStopped>(&message.body)) {
      entry.relay = stopped->relay;
      entry.facts.offered_port = stopped->offered_port;
      if (entry.stopping != message.generation) return;
      entry.stopping.reset();
      Feed(event::GenerationStopped{message.generation, host, stopped->swept,
                                    stopped->offered_port});
    } else if (const auto* arrived = std::get_if<wire::WorkerArrived>(&message.body)) {
      Feed(event::WorkerArrived{static_cast<WorkerId>(arrived->worker)});
    } else if (const auto* leaving = std::get_if<wire::HostLeaving>(&message.body)) {
      Feed(event::HostLeaving{host, std::chrono::milliseconds(leaving->in_ms)});
    } else if (const auto* broken = std::get_if<wire::ConnectionsBroken>(&message.body)) {
      OnConnectionsBroken(host, message.generation, *broken);
    } else if (const auto* warmed = std::get_if<wire::Warmed>(&message.body)) {
      OnWarmed(entry.slots.host, message.generation, *warmed);
    } else {
      Log(LogLevel::kDebug, "launcher", "ignored {} from {}",
          wire::Name(wire::TypeOf(message.body)), entry.slots.host);
    }
  }

  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken) {
    observers_.OnConnectionsBroken(host, generation, broken);
    if (broken.refused == 0 || std::exchange(refused_in_, generation) == generation) return;
    console_->Say(
        fmt::format("workers on host {} learn of the loss only by Horovod's own timeout of {} s: "
                    "{}{}{}",
                    agents_.hosts().At(host).slots.host,
                    WorkerEnvironment(plan_.spec, plan_.environment, /*is_local=*/true)
                        .GetOr("HOROVOD_GLOO_TIMEOUT_SECONDS", "30"),
                    broken.why, broken.hint.empty() ? "" : "; ", broken.hint));
  }

  JobReport MakeReport() override {
    LastWords last;
    if (job_ && verdict_.first_failure) last = job_->LastWordsOf(*verdict_.first_failure);
    JobReport report = BeginReport(std::move(last));
    report.generations = job_ ? job_->published() : 0;
    report.hosts = agents_.hosts().Report();
    if (job_) report.earlier_failures = job_->EarlierFailures();
    if (!serve_end_.is_finished()) report.memberships = observers_.memberships();
    return report;
  }

  HostSource& source_;
  ToldHosts* const told_;  // null: the source is another one
  const ElasticPolicy policy_;
  ElasticAgents agents_;
  Generation newest_ = 0;      // Newest in any message.
  Generation refused_in_ = 0;  // Last generation with that warning.
  std::unique_ptr<Job> job_;   // null: before the client's first job

  // Of a client with more than one gang.
  WorkerId next_worker_ = 0;  // above all numbers of its jobs
  bool is_source_started_ = false;
  std::optional<Found> found_;  // the last list
  Status why_none_found_;       // ok: it is the last answer
  bool has_ended_ = false;      // the job
};

}  // namespace

std::unique_ptr<JobLauncher> MakeElasticLauncher(Loop& loop, const JobReach& reach, Trace& trace,
                                                 LaunchPlan plan) {
  return std::make_unique<ElasticLauncher>(loop, reach, trace, std::move(plan));
}

}  // namespace hvdray
