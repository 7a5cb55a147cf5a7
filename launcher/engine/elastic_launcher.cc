#include "launcher/engine/elastic_launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <utility>

#include "base/log.h"
#include "base/notice.h"
#include "launcher/driver/elastic_driver.h"
#include "launcher/driver/gang_cause.h"
#include "launcher/driver/late_fault.h"
#include "launcher/engine/elastic_agents.h"
#include "launcher/engine/elastic_kv.h"
#include "launcher/engine/elastic_observers.h"
#include "launcher/engine/elastic_start.h"
#include "launcher/engine/job_files.h"
#include "launcher/engine/job_front.h"
#include "launcher/engine/leftovers.h"
#include "launcher/engine/stdin_feeder.h"
#include "launcher/engine/worker_claims.h"

namespace hvdray {
namespace {

uint32_t Milliseconds(Duration duration) {
  return static_cast<uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(duration).count());
}

void LogJobStateChange(const StateChange& change) {
  const std::string who = change.rank < 0 ? "job" : fmt::format("rank {}", change.rank);
  Log(LogLevel::kDebug, fmt::format("driver[gen={}]", change.generation), "{}: {} -> {}", who,
      change.from, change.to);
}

class RealElasticLauncher : public ElasticLauncher {
 public:
  RealElasticLauncher(Loop& loop, Transport& transport, HostSource& source, ElasticHosts ways,
                      Trace& trace, LaunchPlan plan, ElasticPolicy policy)
      : loop_(loop),
        source_(source),
        trace_(trace),
        plan_(std::move(plan)),
        policy_(policy),
        began_(loop.Now()),
        jitter_seed_(std::random_device{}()),
        driver_(policy, jitter_seed_, began_, &LogJobStateChange),
        agents_(loop, transport, std::move(ways), plan_, MakeAgentHandlers()),
        kv_(policy.mode, policy.repairs_meetings, MakeKvHandlers()),
        observers_(loop, trace) {}

  Status OpenFiles() {
    HVDRAY_RETURN_IF_ERROR(CheckReportPaths(plan_.spec));
    HVDRAY_ASSIGN_OR_RETURN(
        front_, JobFront::Open(loop_, trace_, plan_.spec, plan_.environment, agents_.agents(),
                               MakeFrontHandlers(), plan_.place.record_fd));
    HVDRAY_RETURN_IF_ERROR(
        observers_.Open(plan_, policy_, jitter_seed_, began_,
                        [this](Status why) { Feed(event::OutputDamaged{std::move(why)}); }));
    HostSource::Handlers handlers;
    handlers.on_hosts = [this](std::vector<HostSlots> hosts, bool is_final) {
      agents_.nics().SetFixed(is_final);
      Feed(event::HostsDiscovered{std::move(hosts), is_final});
    };
    handlers.on_failure = [this](Status why) { Feed(event::DiscoveryFailed{std::move(why)}); };
    return source_.Start(std::move(handlers));
  }

  JobReport Run() override {
    front_->Run([this] {
      trace_.Begin(kPhaseHello, loop_.Now());
      ArmTimer();
    });
    return MakeReport();
  }

  void StopBy(int signo) override { front_->OnStopSignal(signo); }
  void HostLeaves(const std::string& host, Duration in) override {
    ElasticHostTable& hosts = agents_.hosts();
    for (int i = 0; i < hosts.size(); ++i) {
      if (hosts.At(i).slots.host == host) Feed(event::HostLeaving{i, in});
    }
  }
  void Print(std::span<const std::string> lines) override { front_->Print(lines); }
  void Say(std::string_view line) override {
    front_->output().Say(NoticeLine(LogLevel::kInfo, "hvdray", line));
  }

 private:
  JobFrontHandlers MakeFrontHandlers() {
    JobFrontHandlers handlers;
    handlers.on_stop_signal = [this](int signo) {
      is_sigint_first_ = !std::exchange(was_told_to_stop_, true) && IsSigintFirst(signo);
      Feed(event::UserSignal{signo});
    };
    handlers.on_forward_signal = [this](int signo) {
      agents_.agents().SendAll({newest_, wire::Signal{-1, signo}});
    };
    handlers.on_reader_gone = [this] { Feed(event::ReaderGone{}); };
    handlers.on_damaged = [this](Status why) { Feed(event::OutputDamaged{std::move(why)}); };
    handlers.on_output_blocked = [this](bool is_blocked) {
      Feed(event::OutputBlocked{is_blocked});
    };
    handlers.on_consumed = [this](int worker, uint32_t bytes) {
      claims_.OnWritten(worker, bytes);
      SendToWorker(worker, wire::Credit{worker, wire::StreamId::kStdout, bytes});
    };
    return handlers;
  }

  ElasticKv::Handlers MakeKvHandlers() {
    ElasticKv::Handlers handlers;
    handlers.ways.send = [this](int agent, wire::Message message) {
      agents_.agents().Send(agent, std::move(message));
    };
    handlers.ways.has_room = [this](int agent) { return agents_.agents().HasControlRoom(agent); };
    handlers.ways.takes_deflated = [this](int agent) {
      return agents_.agents().TakesDeflated(agent);
    };
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

  ElasticAgentsHandlers MakeAgentHandlers() {
    ElasticAgentsHandlers handlers;
    handlers.on_ready = [this](int host, const wire::HostFacts& facts) {
      Feed(event::HostReady{host, facts});
    };
    handlers.on_copying = [this](int host) { Feed(event::HostCopying{host}); };
    handlers.on_synced = [this](int host, const SyncStats& stats) {
      observers_.OnSynced(host, stats);
    };
    handlers.on_lost = [this](int host, Status why) {
      Feed(event::HostLost{host, std::move(why)});
    };
    handlers.on_left = [this](int agent) { ForgetWorkersOf(agent); };
    handlers.on_gone = [this](int agent) { kv_.DropAgent(agent); };
    handlers.on_control_room = [this](int agent) { kv_.OnRoom(agent); };
    handlers.on_message = [this](int agent, int host, wire::Message&& message) {
      OnMessage(agent, host, std::move(message));
    };
    handlers.on_noise = [this](const std::string& line) { front_->output().Say(line); };
    handlers.on_released = [this] { EndJob(); };
    return handlers;
  }

  void ForgetWorkersOf(int agent) {
    for (auto it = living_.begin(); it != living_.end();) {
      if (claims_.AgentOf(it->first) == agent) {
        kv_.Forget(it->second.host, it->second.local_rank);
        it = living_.erase(it);
      } else {
        ++it;
      }
    }
  }

  // Feeds one fact to all observers and the driver, then does what the driver wants. A fact that
  // comes up while effects are applied waits for its turn.
  void Feed(ElasticEvent event) {
    pending_.push_back(std::move(event));
    if (is_feeding_ || !front_) return;
    is_feeding_ = true;
    while (!pending_.empty()) {
      const ElasticEvent next = std::move(pending_.front());
      pending_.pop_front();
      FeedOne(next);
    }
    is_feeding_ = false;
    front_->ShowProgress(progress_);
    ArmTimer();
  }

  void FeedOne(const ElasticEvent& event) {
    if (is_finished_) {
      if (const std::optional<Event> late = AsStatic(event)) {
        AddLateFault(verdict_, *late);
      }
      return;
    }
    const TimePoint now = loop_.Now();
    observers_.OnEvent(event, now);
    for (const ElasticEffect& effect : driver_.Handle(event, now)) {
      observers_.OnEffect(effect, now);
      std::visit([this](const auto& e) { Apply(e); }, effect);
    }
  }

  void ArmTimer() {
    const auto deadline = is_finished_ ? std::nullopt : driver_.NextDeadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    tick_timer_.Cancel();
    if (!deadline) return;
    tick_timer_ = loop_.After(*deadline - loop_.Now(), [this] {
      armed_.reset();
      Feed(event::Tick{});
    });
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
      front_->output().MoveWorker(worker, static_cast<int>(rank), living->second.host);
    }
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
    for (auto& [host, message] : ElasticStartMessages(plan_, start, whole, agents_.hosts())) {
      ElasticHost& entry = agents_.hosts().At(host);
      for (const wire::WorkerSlot& slot : message.workers) {
        claims_.Admit(slot.worker, entry.agent, start.generation);
      }
      entry.has_workers = true;
      agents_.SendTo(host, {published_, wire::KvReset{}});
      agents_.SendTo(host, {start.generation, std::move(message)});
    }
    for (const NewWorker& worker : start.workers) {
      const auto number = static_cast<int>(worker.worker);
      living_[number] = worker.place;
      kv_.Admit(worker.place.host, worker.place.local_rank);
      front_->output().StartWorker(number, worker.place.rank, worker.place.host);
      if (is_first) StartStdin(number, worker.place.rank);
    }
    if (!is_first) return;
    progress_.np = static_cast<int>(start.workers.size());
    progress_.host_count = progress_.hosts_ready = std::max(1, agents_.hosts().size());
  }

  // A later generation finds the stream half read: it gets none, as a restarted command would.
  void StartStdin(int worker, int rank) {
    if (*plan_.spec.stdin_rank != rank) return;
    stdin_worker_ = worker;
    stdin_ = std::make_unique<StdinFeeder>(loop_, STDIN_FILENO, worker, [this, worker](auto frame) {
      SendToWorker(worker, std::move(frame));
    });
    stdin_->AddCredit(kStdinWindowBytes);
  }

  void SendToWorker(int worker, wire::Body body) {
    const int agent = claims_.AgentOf(worker);
    if (agent < 0) return;
    agents_.agents().Send(agent, {claims_.GenerationOf(worker), std::move(body)});
  }

  void Apply(const effect::OpenMeeting& /*open*/) { kv_.OpenMeeting(); }

  void Apply(const effect::StopWorkers& stop) {
    std::map<int, wire::StopWorkers> by_agent;
    for (const WorkerId worker : stop.workers) {
      wire::StopWorkers& order = by_agent[claims_.AgentOf(static_cast<int>(worker))];
      order.grace_ms = Milliseconds(stop.grace);
      order.workers.push_back(static_cast<int32_t>(worker));
    }
    for (auto& [agent, order] : by_agent) {
      if (agent >= 0) agents_.agents().Send(agent, {newest_, std::move(order)});
    }
  }

  void Apply(const effect::BreakConnections& order) {
    for (const int host : order.hosts) {
      agents_.SendTo(host, {order.generation, wire::BreakConnections{}});
    }
  }

  void Apply(const effect::Notify& notify) {
    SendToWorker(static_cast<int>(notify.worker),
                 wire::Notify{static_cast<int32_t>(notify.worker), notify.timestamp,
                              static_cast<uint8_t>(notify.code)});
  }

  void Apply(const effect::MembershipChanged& /*change*/) {}  // observers_ have it

  void Apply(const effect::StopGeneration& stop) {
    const bool is_sigint_first = is_sigint_first_ && stop.grace > Duration::zero();
    Log(LogLevel::kInfo, "launcher", "stopping all workers: {}",
        WayOfStop(is_sigint_first, stop.grace));
    SetNewest(stop.generation);
    kv_.Close();
    for (const int host : stop.hosts) {
      agents_.hosts().At(host).stopping = stop.generation;
      if (is_sigint_first) agents_.SendTo(host, {stop.generation, wire::Signal{-1, SIGINT}});
      agents_.SendTo(host, {stop.generation, wire::StopGeneration{Milliseconds(stop.grace)}});
    }
  }

  void Apply(const effect::Say& say) { front_->Say(say.text); }

  void Apply(const effect::Finish& finish) {
    verdict_ = finish.verdict;
    is_finished_ = true;
    observers_.OnEnd(verdict_, driver_.Snapshot());
    source_.Stop();
    stdin_.reset();
    loop_.Post([this] { agents_.EndReleases(); });
  }

  void EndJob() {
    front_->Finish([this](Status drained) { AddDrainFault(verdict_, std::move(drained)); },
                   [this] { EndLeftoversOfLostAgents(); });
  }

  // The keeper of a lost agent has ended by now, by itself or killed like the agent.
  void EndLeftoversOfLostAgents() {
    for (const uint32_t pid : agents_.lost_here()) EndLeftovers(plan_.job_id, pid);
  }

  void SetNewest(Generation generation) {
    newest_ = std::max(newest_, generation);
    claims_.SetNewest(newest_);
    front_->SetGeneration(newest_);
  }

  void OnMessage(int agent, int host, wire::Message&& message) {
    if (Status status = claims_.Check(agent, message); !status.ok()) {
      agents_.Reject(agent, std::move(status));
      return;
    }
    if (auto* kv = std::get_if<wire::KvRequest>(&message.body)) {
      kv_.OnRequest(agent, message.generation, std::move(*kv));
    } else if (auto* output = std::get_if<wire::Output>(&message.body)) {
      const bool is_stderr = output->stream == wire::StreamId::kStderr;
      front_->output().OnOutput(output->rank, output->stream, std::move(output->bytes),
                                output->is_end);
      if (is_stderr && !failed_.empty()) FeedError(output->rank, std::nullopt);
    } else if (const auto* started = std::get_if<wire::WorkerStarted>(&message.body)) {
      if (message.generation == 1) ++progress_.workers_started;
      Feed(event::ProcessStarted{static_cast<WorkerId>(started->rank), started->pid});
    } else if (const auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
      OnExited(*exited);
    } else if (const auto* credit = std::get_if<wire::Credit>(&message.body)) {
      if (stdin_ && credit->stream == wire::StreamId::kStdin) stdin_->AddCredit(credit->bytes);
    } else {
      if (host >= 0) OnHostMessage(host, message);
    }
  }

  void OnExited(const wire::WorkerExited& exited) {
    const WorkerRecord& record = driver_.roster().Of(static_cast<WorkerId>(exited.rank)).record;
    Log(LogLevel::kInfo, "launcher", "{} {}", NameOf(record), Describe(exited.status));
    if (stdin_ && stdin_worker_ == exited.rank) stdin_->Stop();
    const auto living = living_.find(exited.rank);
    if (living != living_.end()) {
      kv_.Forget(living->second.host, living->second.local_rank);
      living_.erase(living);
    }
    if (!exited.status.is_success()) FeedLastWords(exited);
    Feed(event::ProcessExited{static_cast<WorkerId>(exited.rank), exited.status});
  }

  // What a worker that has failed says of its error; at the first failure, what the living do.
  void FeedLastWords(const wire::WorkerExited& exited) {
    if (!exited.recorded_error.empty()) recorded_errors_[exited.rank] = exited.recorded_error;
    const bool is_first = failed_.empty();
    failed_.push_back(exited.rank);
    std::vector<int> others;
    if (is_first) {
      for (const auto& [worker, place] : living_) others.push_back(worker);
    }
    for (const int worker : others) FeedError(worker, std::nullopt);
    std::optional<Duration> age;
    if (exited.error_age_ms >= 0) age = std::chrono::milliseconds(exited.error_age_ms);
    FeedError(exited.rank, age);
  }

  void FeedError(int worker, std::optional<Duration> age) {
    LastError error = front_->output().ErrorOf(worker);
    const auto recorded = recorded_errors_.find(worker);
    if (error.text.empty() && recorded != recorded_errors_.end()) {
      error = ReadRecordedError(recorded->second);
    }
    LastError& known = errors_[worker];
    if (error == known && !age) return;
    known = error;
    Feed(event::ProcessErred{static_cast<WorkerId>(worker), std::move(error), age});
  }

  // What an agent says of its host and not of a worker's life.
  void OnHostMessage(int host, const wire::Message& message) {
    ElasticHost& entry = agents_.hosts().At(host);
    if (const auto* stopped = std::get_if<wire::GenerationStopped>(&message.body)) {
      entry.relay = stopped->relay;
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
    } else {
      Log(LogLevel::kDebug, "launcher", "ignored {} from {}",
          wire::NameOf(wire::TypeOf(message.body)), entry.slots.host);
    }
  }

  void OnConnectionsBroken(int host, Generation generation, const wire::ConnectionsBroken& broken) {
    observers_.OnConnectionsBroken(host, generation, broken);
    if (broken.refused == 0 || std::exchange(refused_in_, generation) == generation) return;
    front_->Say(
        fmt::format("workers on host {} learn of the loss only by Horovod's own timeout of {} s: "
                    "{}{}{}",
                    agents_.hosts().At(host).slots.host,
                    WorkerEnvironment(plan_.spec, plan_.environment, /*is_local=*/true)
                        .GetOr("HOROVOD_GLOO_TIMEOUT_SECONDS", "30"),
                    broken.why, broken.hint.empty() ? "" : "; ", broken.hint));
  }

  LastWords LastWordsOf(const WorkerRecord& failure) {
    for (const int worker : failed_) {
      const WorkerRecord& record = driver_.roster().Of(static_cast<WorkerId>(worker)).record;
      if (record.pid == failure.pid && record.host == failure.host) {
        return front_->output().LastWordsOf(worker);
      }
    }
    return {};
  }

  // Of a gang: who failed first in each generation but the last.
  std::vector<EarlierFailure> EarlierFailures() {
    std::vector<EarlierFailure> failures;
    if (policy_.mode != ElasticMode::kGang) return failures;
    Generation newest = 0;
    for (const int worker : failed_) {
      const WorkerRecord& record = driver_.roster().Of(static_cast<WorkerId>(worker)).record;
      if (record.generation <= newest || record.generation >= published_) continue;
      newest = record.generation;
      failures.push_back({record, front_->output().LastWordsOf(worker)});
    }
    if (failures.size() > kMaxEarlierFailures) {
      failures.erase(failures.begin(), failures.end() - kMaxEarlierFailures);
    }
    return failures;
  }

  JobReport MakeReport() {
    JobReport report;
    report.job_id = plan_.job_id;
    report.build = plan_.build;
    report.command = *plan_.spec.command;
    report.np = *plan_.spec.np;
    report.generations = published_;
    report.hosts = agents_.hosts().Report();
    if (verdict_.first_failure) {
      LastWords words = LastWordsOf(*verdict_.first_failure);
      report.last_lines = std::move(words.err);
      report.last_stdout = std::move(words.out);
    }
    report.earlier_failures = EarlierFailures();
    report.verdict = std::move(verdict_);
    report.damaged_files = front_->output().DamagedFiles();
    report.rendezvous = kv_.store().stats();
    report.stale_questions = kv_.store().stale_questions();
    report.refused_questions = kv_.refused_questions();
    report.is_peer_checked = *plan_.spec.is_peer_checked;
    report.phases = trace_.phases();
    report.memberships = observers_.memberships();
    report.began = plan_.began;
    report.began_wall = plan_.began_wall;
    return report;
  }

  Loop& loop_;
  HostSource& source_;
  Trace& trace_;
  LaunchPlan plan_;
  const ElasticPolicy policy_;
  const TimePoint began_;
  const uint64_t jitter_seed_;
  ElasticDriver driver_;
  ElasticAgents agents_;
  WorkerClaims claims_;
  ElasticKv kv_;
  std::map<int, RankInfo> living_;  // Workers, with their present places.
  bool was_told_to_stop_ = false;
  bool is_sigint_first_ = false;                // The next stop begins with it.
  std::vector<int> failed_;                     // Workers that ended badly in order.
  std::vector<RankInfo> ranks_;                 // Of the published generation.
  std::map<int, LastError> errors_;             // What the driver was told of them.
  std::map<int, std::string> recorded_errors_;  // TORCHELASTIC_ERROR_FILE.
  std::deque<ElasticEvent> pending_;
  bool is_feeding_ = false;
  std::unique_ptr<JobFront> front_;
  ElasticObservers observers_;
  std::unique_ptr<StdinFeeder> stdin_;
  int stdin_worker_ = -1;
  StartProgress progress_;
  Generation published_ = 0;
  Generation newest_ = 0;      // That any message speaks of.
  Generation refused_in_ = 0;  // In which the person was told so last.
  Verdict verdict_;
  bool is_finished_ = false;
  std::optional<TimePoint> armed_;
  Watch tick_timer_;
};

}  // namespace

Result<std::unique_ptr<ElasticLauncher>> ElasticLauncher::Open(Loop& loop, Transport& transport,
                                                               HostSource& source,
                                                               ElasticHosts hosts, Trace& trace,
                                                               LaunchPlan plan,
                                                               ElasticPolicy policy) {
  auto launcher = std::make_unique<RealElasticLauncher>(loop, transport, source, std::move(hosts),
                                                        trace, std::move(plan), policy);
  HVDRAY_RETURN_IF_ERROR(launcher->OpenFiles());
  return std::unique_ptr<ElasticLauncher>(std::move(launcher));
}

}  // namespace hvdray
