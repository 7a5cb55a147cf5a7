// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/elastic_launcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
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
#include "launcher/engine/kv_bridge.h"
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

class ElasticLauncher final : public JobLauncher, private ElasticAgents::Owner {
 public:
  ElasticLauncher(Loop& loop, const JobReach& reach, Trace& trace, LaunchPlan plan)
      : JobLauncher(loop, trace, std::move(plan), "worker"),
        source_(*reach.source),
        told_(reach.told),
        policy_(ToElasticPolicy(plan_.spec, plan_.began_wall)),
        agents_(loop, reach.transport, *reach.hosts, plan_, *this),
        kv_(agents_.agents(), HoldOf(policy_), MakeKvHandlers()) {}

  Status Open(std::optional<ServeOptions> serve) override {
    HVDRAY_RETURN_IF_ERROR(OpenClient(std::move(serve)));
    if (client_->is_one_gang()) MakeJob(policy_);
    HVDRAY_RETURN_IF_ERROR(OpenConsole());
    if (!job_) return {};
    HVDRAY_RETURN_IF_ERROR(OpenRecord(*job_));
    return StartSource();
  }

  void HostLeaves(const std::string& host, Duration in) override {
    HostTable& hosts = agents_.hosts();
    for (int i = 0; i < hosts.size(); ++i) {
      if (hosts.At(i).slots.host == host) Feed(event::HostLeaving{i, in});
    }
  }

 private:
  /// The job, and the way to its driver.
  struct Job {
    Job(ElasticLauncher& owner, const ElasticPolicy& its_policy)
        : policy(its_policy),
          began(owner.loop_.Now()),
          driver(MakeElasticDriver(policy, jitter_seed, began, &LogJobStateChange)),
          loop(owner.loop_, *driver, owner) {}
    const ElasticPolicy policy;
    const TimePoint began;
    const uint64_t jitter_seed{std::random_device{}()};
    const std::unique_ptr<ElasticDriver> driver;
    DriverLoop<ElasticLauncher, ElasticDriver, ElasticEvent, ElasticEffect> loop;
  };
  void Feed(ElasticEvent fact) {
    if (is_running()) return job_->loop.Feed(std::move(fact));
    observers_.OnEvent(fact, loop_.Now());  // before the client's first job, or between two
  }
  bool is_running() const { return job_ && !has_ended_; }
  bool HasGang() const override { return is_running(); }
  AgentSet& agents() override { return agents_.agents(); }
  KvBridge& kv() override { return kv_; }
  ObjectFeed& objects() override { return agents_.objects(); }
  bool HasObjectRoom() override { return agents_.objects().HasRoom(); }

  void Start() override {
    if (job_) job_->loop.Start();
  }
  struct Found {
    std::vector<HostSlots> hosts;
    bool is_final = false;
  };

  Job& MakeJob(const ElasticPolicy& policy) {
    job_ = std::make_unique<Job>(*this, policy);
    return *job_;
  }

  Status OpenRecord(const Job& job) {
    return observers_.OpenRecord(plan_, job.policy, job.jitter_seed, job.began, [this](Status why) {
      FeedUserEvent(event::OutputDamaged{std::move(why)});
    });
  }

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
    Status status = OpenRecord(MakeJob(policy));
    if (status.ok() && !std::exchange(is_source_started_, true)) status = StartSource();
    if (!status.ok()) {
      job_.reset();
      return status;
    }
    // What the source has said to an earlier job.
    if (found_) Feed(event::HostsDiscovered{found_->hosts, found_->is_final});
    if (!why_none_found_.ok()) Feed(event::DiscoveryFailed{why_none_found_});
    job_->loop.Start();
    return {};
  }

  // Of the job before; its agents are kept.
  void ForgetJob() {
    job_.reset();
    has_ended_ = false;
    is_sigint_first_ = false;
    observers_.Forget();
    living_.clear();
    failed_.clear();
    ranks_.clear();
    published_ = 0;
    last_notice_ = 0;
    errors_.Clear();
    kv_.Open();
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

  // Always of a mixed change, as the driver's own notices, and for the same reason.
  Status NotifyWorker(int number, int64_t timestamp) override {
    const auto worker = static_cast<WorkerId>(number);
    const WorkerRoster::Process* process = job_->driver->roster().Living(worker);
    if (process == nullptr || !process->is_registered) {
      return {ErrorCode::kUsage, fmt::format("worker {} has not registered for notices", worker)};
    }
    Log(LogLevel::kInfo, "serve", "notice to worker {}, as the client asks", worker);
    last_notice_ = std::max(last_notice_, timestamp);
    OnEffect(effect::Notify{worker, process->host(), timestamp, UpdateCode::kMixed}, loop_.Now());
    SendNotice(worker, timestamp, UpdateCode::kMixed);
    return {};
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
    if (is_running()) Feed(event::Dismissed{grace});
  }

  void OnServeEnd() override { source_.Stop(); }

  // ---- what others say

  void FeedError(int worker, LastError error, std::optional<Duration> age) override {
    Feed(event::ProcessErred{static_cast<WorkerId>(worker), std::move(error), age});
  }

  void FeedUserEvent(UserEvent event) override {
    std::visit([this](auto&& one) { Feed(std::forward<decltype(one)>(one)); }, std::move(event));
  }

  void OnForwardSignal(int signo) override { agents().SendAll({newest_, wire::Signal{-1, signo}}); }

  void RecordReport(int worker, uint32_t number, const Json& metrics) override {
    observers_.OnReport(static_cast<WorkerId>(worker), number, metrics);
  }

  KvBridge::Handlers MakeKvHandlers() {
    KvBridge::Handlers handlers;
    handlers.on_rank_asked = [this](int worker) {
      Feed(event::RankAsked{static_cast<WorkerId>(worker)});
    };
    handlers.on_registered = [this](int worker) {
      Feed(event::AddressesRegistered{static_cast<WorkerId>(worker)});
    };
    handlers.on_met = [this](int worker, uint32_t member) {
      const auto living = living_.find(worker);
      const bool is_its_own =
          living != living_.end() && living->second.rank == static_cast<int>(member);
      if (is_its_own) Feed(event::WorkerMet{static_cast<WorkerId>(worker)});
    };
    handlers.on_connected = [this](int worker) {
      if (living_.contains(worker)) Feed(event::WorkerConnected{static_cast<WorkerId>(worker)});
    };
    return handlers;
  }

  void OnReady(int host, const wire::HostFacts& facts) override {
    Feed(event::HostReady{host, facts});
  }
  void OnCopying(int host) override { Feed(event::HostCopying{host}); }
  void OnSynced(int host, const SyncStats& stats) override { observers_.OnSynced(host, stats); }
  void OnLost(int host, Status why) override { Feed(event::HostLost{host, std::move(why)}); }
  void OnGone(int agent) override { kv_.DropAgent(agent); }
  void OnControlRoom(int agent) override { kv_.OnRoom(agent); }
  void OnOutputRoom() override { client_->OnTaken(); }
  void OnNoise(std::string_view line) override { console_->output().Say(line); }

  void OnLeft(int agent) override {
    for (auto it = living_.begin(); it != living_.end();) {
      if (workers_->guard().AgentOf(it->first) == agent) {
        kv_.Forget(it->second.host, it->second.local_rank);
        it = living_.erase(it);
      } else {
        ++it;
      }
    }
  }

  friend DriverLoop<ElasticLauncher, ElasticDriver, ElasticEvent, ElasticEffect>;
  void OnFact(const ElasticEvent& event, TimePoint now) { observers_.OnEvent(event, now); }
  void OnEffect(const ElasticEffect& effect, TimePoint now) { observers_.OnEffect(effect, now); }
  void OnLate(const ElasticEvent& event) {
    const std::optional<Event> late = AsStatic(event);
    if (late) AddLateFault(verdict_, *late);
  }
  void Apply(const effect::ConnectHost& connect) { agents_.Connect(connect.host, connect.slots); }

  void Apply(const effect::ReleaseHost& release) { agents_.Release(release.host, newest_); }

  void Apply(const effect::PublishGeneration& publish) {
    SetNewest(publish.generation);
    published_ = publish.generation;
    ranks_ = publish.ranks;
    kv_.Reset(publish.ranks, publish.generation);
    for (int host = 0; host < agents_.hosts().size(); ++host) {
      if (agents_.hosts().At(host).has_workers) agents_.SendTo(host, {published_, wire::KvReset{}});
    }
    kv_.Release();
    for (size_t rank = 0; rank < publish.workers.size(); ++rank) {
      const auto worker = static_cast<int>(publish.workers[rank]);
      const auto living = living_.find(worker);
      if (living == living_.end() || living->second.rank == static_cast<int>(rank)) continue;
      living->second = publish.ranks[rank];
      console_->output().MoveWorker(worker, static_cast<int>(rank), living->second.host);
    }
    client_->OnMembers(publish.ranks, {publish.workers.begin(), publish.workers.end()});
  }

  void Apply(const effect::StartWorkers& start) {
    SetNewest(start.generation);
    if (Status status = agents_.hosts().ChooseNics(agents_.nics()); !status.ok()) {
      Log(LogLevel::kError, "launcher", "{}", status.ToString());
    }
    const bool is_first = start.generation == 1 && start.workers.size() == ranks_.size() &&
                          start.workers.front().worker == 0;
    // Newcomers start before their generation is published.
    const bool is_whole = start.generation == published_;
    const std::vector<RankInfo> whole = is_whole ? ranks_ : std::vector<RankInfo>();
    auto messages = StartMessages(plan_, start, whole, agents_.hosts());
    if (is_first) SayThreads(messages);
    for (auto& [host, message] : messages) {
      JobHost& entry = agents_.hosts().At(host);
      for (const wire::WorkerSlot& slot : message.workers) {
        workers_->guard().Admit(slot.worker, entry.agent, start.generation);
      }
      entry.has_workers = true;
      agents_.SendTo(host, {published_, wire::KvReset{}});
      agents_.SendTo(host, {start.generation, std::move(message)});
    }
    for (const NewWorker& worker : start.workers) {
      const auto number = static_cast<int>(worker.worker);
      next_worker_ = std::max(next_worker_, worker.worker + 1);
      living_[number] = worker.place;
      kv_.Admit(worker.place.host, worker.place.local_rank);
      console_->output().StartWorker(number, worker.place.rank, worker.place.host);
      // A later generation gets no stdin, since the stream is half read.
      if (is_first && *plan_.spec.stdin_rank == worker.place.rank) workers_->StartStdin(number);
      client_->OnWorker(number, worker.place);
      if (is_whole) client_->OnMember(number);
    }
    if (!is_first) return;
    progress_.np = static_cast<int>(start.workers.size());
    progress_.host_count = progress_.hosts_ready = std::max(1, agents_.hosts().size());
  }

  void Apply(const effect::OpenBarrier& /*open*/) { kv_.OpenBarrier(); }

  void Apply(const effect::StopWorkers& stop) {
    std::map<int, wire::StopWorkers> by_agent;
    for (const WorkerId worker : stop.workers) {
      TellEnd(static_cast<int>(worker), stop.grace);
      wire::StopWorkers& order = by_agent[workers_->guard().AgentOf(static_cast<int>(worker))];
      order.grace_ms = Milliseconds(stop.grace);
      order.workers.push_back(static_cast<int32_t>(worker));
    }
    for (auto& [agent, order] : by_agent) {
      if (agent >= 0) agents().Send(agent, {newest_, std::move(order)});
    }
  }

  void Apply(const effect::BreakConnections& order) {
    for (const int host : order.hosts) {
      agents_.SendTo(host, {order.generation, wire::BreakConnections{}});
    }
  }

  void Apply(const effect::Notify& notify) {
    // Workers pass over one that is not newer than the last, which the client may have dated.
    last_notice_ = std::max(last_notice_ + 1, notify.timestamp);
    SendNotice(notify.worker, last_notice_, notify.code);
  }

  void SendNotice(WorkerId worker, int64_t timestamp, UpdateCode code) {
    workers_->Send(static_cast<int>(worker), wire::Notify{static_cast<int32_t>(worker), timestamp,
                                                          static_cast<uint8_t>(code)});
  }

  void Apply(const effect::MembershipChanged& /*change*/) {}  // observers_ have it

  void Apply(const effect::StopGeneration& stop) {
    SetNewest(stop.generation);
    kv_.Close();
    for (const auto& [worker, place] : living_) TellEnd(worker, stop.grace);
    const std::vector<wire::Body> orders = console_->StopOrders(stop.grace, is_sigint_first_);
    for (const int host : stop.hosts) {
      agents_.hosts().At(host).stopping = stop.generation;
      for (const wire::Body& order : orders) agents_.SendTo(host, {stop.generation, order});
    }
  }

  void Apply(const effect::Say& say) { console_->Say(say.text); }

  void Apply(const effect::Finish& finish) {
    verdict_ = finish.verdict;
    job_->loop.Finish();
    observers_.OnEnd(verdict_, job_->driver->Snapshot());
    if (client_->is_one_gang()) source_.Stop();
    workers_->DropStdin();
    loop_.Post([this] { agents_.EndReleases(); });
  }

  void OnReleased() override { client_->is_one_gang() ? FinishConsole() : EndJob(); }

  std::vector<uint32_t> LostPidsHere() override {
    return {agents_.lost_here().begin(), agents_.lost_here().end()};
  }

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
      OnExited(*exited);
    } else {
      if (host >= 0) OnHostMessage(host, message);
    }
  }

  void OnExited(const wire::WorkerExited& exited) {
    const WorkerRecord& record = RecordOf(exited.rank);
    Log(LogLevel::kInfo, "launcher", "{} {}", Name(record), Describe(exited.status));
    workers_->OnExited(exited.rank);
    const auto living = living_.find(exited.rank);
    if (living != living_.end()) {
      kv_.Forget(living->second.host, living->second.local_rank);
      living_.erase(living);
    }
    if (!exited.status.is_success()) {
      failed_.push_back(exited.rank);
      std::vector<int> others;
      if (!errors_.has_failed()) {
        for (const auto& [worker, place] : living_) others.push_back(worker);
      }
      errors_.OnFailed(console_->output(), exited, others);
    }
    Feed(event::ProcessExited{static_cast<WorkerId>(exited.rank), exited.status});
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
      observers_.OnWarmed(entry.slots.host, message.generation, *warmed);
      OnWarmed(entry.slots.host, *warmed);
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

  const WorkerRecord& RecordOf(int worker) const {
    return job_->driver->roster().Of(static_cast<WorkerId>(worker)).record;
  }

  LastWords LastWordsOf(const WorkerRecord& failure) {
    for (const int worker : failed_) {
      const WorkerRecord& record = RecordOf(worker);
      if (record.pid == failure.pid && record.host == failure.host) {
        return console_->output().LastWordsOf(worker);
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
      failures.push_back({record, console_->output().LastWordsOf(worker)});
    }
    if (failures.size() > kMaxEarlierFailures) {
      failures.erase(failures.begin(), failures.end() - kMaxEarlierFailures);
    }
    return failures;
  }

  JobReport MakeReport() override {
    LastWords last;
    if (verdict_.first_failure) last = LastWordsOf(*verdict_.first_failure);
    JobReport report = BeginReport(std::move(last));
    report.generations = published_;
    report.hosts = agents_.hosts().Report();
    report.earlier_failures = EarlierFailures();
    if (!serve_end_.is_finished()) report.memberships = observers_.memberships();
    return report;
  }

  HostSource& source_;
  ToldHosts* const told_;  // null: the source is another one
  const ElasticPolicy policy_;
  ElasticAgents agents_;
  KvBridge kv_;
  std::map<int, RankInfo> living_;  // Workers with their present places.
  std::vector<int> failed_;         // Failed workers, in order.
  std::vector<RankInfo> ranks_;     // Of the published generation.
  Generation published_ = 0;
  Generation newest_ = 0;      // Newest in any message.
  Generation refused_in_ = 0;  // Last generation with that warning.
  std::unique_ptr<Job> job_;   // null: before the client's first job

  // Of a client with more than one gang.
  int64_t last_notice_ = 0;   // highest timestamp of the job's notices
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
