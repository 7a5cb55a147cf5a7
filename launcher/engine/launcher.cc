// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <deque>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "launcher/driver/cause.h"
#include "launcher/driver/gang_driver.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/driver_loop.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/host_table.h"
#include "launcher/engine/job_console.h"
#include "launcher/engine/kv_bridge.h"
#include "launcher/engine/leftovers.h"
#include "launcher/engine/start_sequence.h"
#include "launcher/engine/stdin_feeder.h"
#include "launcher/engine/worker_channels.h"
#include "launcher/engine/worker_errors.h"
#include "launcher/engine/worker_guard.h"
#include "launcher/job/hostfile.h"
#include "launcher/report/event_log.h"

namespace hvdray {
namespace {

void LogStateChange(const StateChange& change) {
  const std::string who = change.rank < 0 ? "gang" : fmt::format("rank {}", change.rank);
  Log(LogLevel::kDebug, fmt::format("driver[gen={}]", change.generation), "{}: {} -> {}", who,
      change.from, change.to);
}

class FixedLauncher : public Launcher, private AgentSet::Owner {
 public:
  FixedLauncher(Loop& loop, Transport& transport, Trace& trace, LaunchPlan plan)
      : loop_(loop),
        trace_(trace),
        plan_(std::move(plan)),
        driver_(GangPolicyOf(plan_.spec, plan_.place), plan_.ranks,
                plan_.place.start_clock.value_or(plan_.began), &LogStateChange),
        agents_(loop, transport, NamesOf(plan_.hosts), plan_.build, WelcomeOf(plan_), *this),
        kv_(agents_),
        start_(loop, trace, plan_, hosts_, MakeStartHandlers()),
        errors_([this](int rank, LastError error, std::optional<Duration> age) {
          driver_loop_.Feed(event::WorkerErred{generation_, rank, std::move(error), age});
        }),
        channels_(MakeChannelHandlers()),
        driver_loop_(loop, driver_, *this) {
    for (size_t i = 0; i < plan_.hosts.size(); ++i) {
      const auto host = static_cast<int>(i);
      hosts_.Connect(host, plan_.hosts[i], host);
      hosts_.At(host).is_remote = plan_.is_remote[i];
    }
    progress_.host_count = hosts_.size();
    progress_.np = static_cast<int>(plan_.ranks.size());
  }

  Status OpenFiles() {
    HVDRAY_RETURN_IF_ERROR(CheckReportPaths(plan_.spec));
    JobConsole::Handlers handlers = HandlersFeeding(driver_loop_);
    handlers.on_forward_signal = [this](int signo) {
      const wire::Signal signal = {-1, signo};
      if (progress_.workers_started > 0) return agents_.SendAll({generation_, signal});
      console_->Say("there is no worker yet to pass the signal on to");
    };
    handlers.on_consumed = [this](int rank, uint32_t bytes) {
      const uint32_t granted = guard_.OnWritten(rank, bytes);
      if (granted == 0) return;
      agents_.Send(guard_.AgentOf(rank),
                   {generation_, wire::Credit{rank, wire::StreamId::kStdout, granted}});
    };
    HVDRAY_ASSIGN_OR_RETURN(console_,
                            JobConsole::Open(loop_, trace_, plan_.spec, plan_.environment, agents_,
                                             std::move(handlers), plan_.place.record_fd));
    if (plan_.spec.events_file->empty()) return {};
    EventLogOptions events = EventOptionsOf(plan_);
    events.on_damaged = [this](Status why) {
      driver_loop_.Feed(event::OutputDamaged{std::move(why)});
    };
    HVDRAY_ASSIGN_OR_RETURN(event_log_, EventLog::Open(loop_, std::move(events)));
    return {};
  }

  JobReport Run() override {
    console_->Begin();
    trace_.Begin(kPhaseHello, loop_.Now());
    Log(LogLevel::kInfo, "launcher", "starting agents on {}",
        CompressHostList(NamesOf(plan_.hosts)));
    console_->ShowProgress(progress_);
    agents_.StartAll();
    driver_loop_.Start();
    console_->Run();
    return MakeReport();
  }

  void StopBy(int signo) override { console_->OnStopSignal(signo); }
  void HostLeaves(const std::string& /*host*/, Duration /*in*/) override {}
  void Say(std::string_view line) override {
    console_->output().Say(NoticeLine(LogLevel::kInfo, "hvdray", line));
  }
  void Print(std::span<const std::string> lines) override { console_->Print(lines); }

 private:
  void OnReady(int host, const wire::HostFacts& facts) override {
    hosts_.At(host).facts = facts;
    Log(LogLevel::kInfo, "host " + plan_.hosts[static_cast<size_t>(host)].host,
        "its agent is ready: process {}, {} CPUs", facts.agent_pid, facts.cpu_count);
    ++progress_.hosts_ready;
    driver_loop_.Feed(event::HostReady{host, facts});
  }

  void OnLost(int host, Status why) override {
    kv_.DropAgent(host);
    start_.Drop();
    lost_.insert(host);
    driver_loop_.Feed(event::HostLost{host, std::move(why)});
  }

  void OnControlRoom(int host) override { kv_.OnRoom(host); }

  void OnNoise(int host, ByteView line) override {
    console_->output().Say(
        NoticeLine(LogLevel::kInfo, plan_.hosts[static_cast<size_t>(host)].host, line));
  }

  WorkerChannels::Handlers MakeChannelHandlers() {
    WorkerChannels::Handlers handlers;
    handlers.on_hello = [](int, const Json&) {};
    handlers.on_data = [](int, const Json&, ByteView, uint64_t, uint64_t) {};
    handlers.on_report = [this](int rank, uint32_t number, const Json& metrics) {
      if (event_log_) event_log_->OnReport(generation_, rank, number, metrics, loop_.Now());
    };
    handlers.on_violation = [this](int rank, const Status& why) {
      console_->Say(ChannelFaultText(fmt::format("rank {}", rank), why));
      driver_loop_.Feed(event::WorkerErred{generation_, rank, ChannelError(why)});
      agents_.Send(guard_.AgentOf(rank), {generation_, wire::Signal{rank, SIGKILL}});
    };
    return handlers;
  }

  StartSequence::Handlers MakeStartHandlers() {
    StartSequence::Handlers handlers;
    handlers.send = [this](int host, wire::Body body) {
      agents_.Send(host, {generation_, std::move(body)});
    };
    handlers.on_failed = [this](int host, Status why) {
      driver_loop_.Feed(event::HostLost{host, std::move(why)});
    };
    handlers.on_copying = [this](bool is_active) { driver_loop_.Feed(event::Copying{is_active}); };
    handlers.on_synced = [this](int host, const SyncStats& stats) {
      driver_loop_.Feed(event::HostSynced{host, stats});
    };
    handlers.on_ready = [this] { SendStart(); };
    return handlers;
  }

  friend DriverLoop<FixedLauncher, GangDriver, Event, Effect>;
  void OnFact(const Event& event, TimePoint now) {
    trace_.OnEvent(event, now);
    if (event_log_) event_log_->OnEvent(event, now);
  }
  void OnEffect(const Effect& effect, TimePoint now) {
    trace_.OnEffect(effect, now);
    if (event_log_) event_log_->OnEffect(effect, now);
  }
  void OnLate(const Event& event) { AddLateFault(verdict_, event); }
  void OnIdle() { console_->ShowProgress(progress_); }

  void Apply(const effect::StartGeneration& start) {
    generation_ = start.generation;
    errors_.Clear();
    channels_.Clear();
    console_->SetGeneration(generation_);
    progress_.workers_started = 0;
    NoteEarlierFailure();
    for (const RankInfo& rank : start.ranks) {
      guard_.Admit(rank.rank, rank.host_index, start.generation);
    }
    console_->output().StartGeneration(start.ranks);
    started_ = start;
    start_.Begin(start.generation);
  }

  // Called before the next attempt's output replaces the last one's.
  void NoteEarlierFailure() {
    const std::optional<WorkerRecord>& failure = driver_.earlier_failure();
    if (!failure) return;
    earlier_failures_.push_back({*failure, console_->output().LastWordsOf(failure->rank)});
    if (earlier_failures_.size() > kMaxEarlierFailures) earlier_failures_.pop_front();
  }

  void SendStart() {
    Log(LogLevel::kInfo, "launcher", "starting ranks 0 to {} on {} (generation {})",
        started_.ranks.size() - 1, CompressHostList(NamesOf(plan_.hosts)), generation_);
    const std::vector<RankInfo> ranks = RanksForWorkers(plan_, started_.ranks);
    effect::StartWorkers start{.generation = generation_,
                               .workers = {},
                               .restart_count = started_.restart_count,
                               .master_port = started_.master_port};
    for (const RankInfo& place : ranks) start.workers.push_back({kNoWorker, place});
    kv_.Reset(ranks, generation_);
    stdin_.reset();
    for (auto& [host, message] : StartMessages(plan_, start, ranks, hosts_)) {
      agents_.Send(host, {generation_, wire::KvReset{}});
      agents_.Send(host, {generation_, std::move(message)});
    }
    StartStdin(started_.ranks);
  }

  void StartStdin(const std::vector<RankInfo>& ranks) {
    const auto& rank = *plan_.spec.stdin_rank;
    // A later generation gets no stdin, since the stream is half read.
    if (!rank || generation_ > 1) return;
    const int host = ranks[static_cast<size_t>(*rank)].host_index;
    stdin_ = std::make_unique<StdinFeeder>(loop_, STDIN_FILENO, *rank, [this, host](auto frame) {
      agents_.Send(host, {generation_, std::move(frame)});
    });
    stdin_->AddCredit(kStdinWindowBytes);
  }

  void Apply(const effect::StopGeneration& stop) {
    start_.Drop();
    const std::vector<wire::Body> orders = console_->StopOrders(stop.grace);
    for (const int host : stop.hosts) {
      for (const wire::Body& order : orders) agents_.Send(host, {stop.generation, order});
    }
  }

  void Apply(const effect::Say& say) { console_->Say(say.text); }

  void Apply(const effect::Finish& finish) {
    verdict_ = finish.verdict;
    driver_loop_.Finish();
    start_.Drop();
    stdin_.reset();
    console_->Finish([this](Status drained) { AddDrainFault(verdict_, std::move(drained)); },
                     [this] { EndLeftoversOfLostAgents(); });
  }

  // By now the keeper of a lost agent has ended, by itself or killed like the agent.
  void EndLeftoversOfLostAgents() {
    for (const int number : lost_) {
      const JobHost& host = hosts_.At(number);
      if (!host.is_remote) EndLeftovers(plan_.job_id, host.facts.agent_pid);
    }
  }

  void OnMessage(int host, wire::Message&& message) override {
    if (Status status = guard_.Check(host, message); !status.ok()) {
      agents_.Reject(host, std::move(status));
      return;
    }
    const Generation generation = message.generation;
    if (auto* kv = std::get_if<wire::KvRequest>(&message.body)) {
      kv_.OnRequest(host, generation, std::move(*kv));
    } else if (auto* output = std::get_if<wire::Output>(&message.body)) {
      if (guard_.IsStale(message)) return;
      if (output->stream == wire::StreamId::kChannel) return OnChannel(*output);
      const bool is_stderr = output->stream == wire::StreamId::kStderr;
      console_->output().OnOutput(output->rank, output->stream, std::move(output->bytes),
                                  output->is_end);
      if (is_stderr) errors_.OnStderr(console_->output(), output->rank);
    } else if (const auto* started = std::get_if<wire::WorkerStarted>(&message.body)) {
      if (generation == generation_) ++progress_.workers_started;
      driver_loop_.Feed(event::WorkerStarted{generation, started->rank, started->pid});
    } else if (const auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
      if (stdin_ && *plan_.spec.stdin_rank == exited->rank) stdin_->Stop();
      Log(LogLevel::kInfo, "launcher", "rank {} {}", exited->rank, Describe(exited->status));
      if (generation == generation_ && !exited->status.is_success()) {
        errors_.OnFailed(console_->output(), *exited, OtherRanks());
      }
      driver_loop_.Feed(
          event::WorkerExited{generation, exited->rank, exited->status, exited->was_stopping});
    } else if (const auto* stopped = std::get_if<wire::GenerationStopped>(&message.body)) {
      hosts_.At(host).relay = stopped->relay;
      driver_loop_.Feed(
          event::GenerationStopped{generation, host, stopped->swept, stopped->offered_port});
    } else if (const auto* credit = std::get_if<wire::Credit>(&message.body)) {
      if (stdin_ && credit->stream == wire::StreamId::kStdin) stdin_->AddCredit(credit->bytes);
    } else if (!start_.OnMessage(host, message)) {
      Log(LogLevel::kDebug, "launcher", "ignored {} from {}",
          wire::NameOf(wire::TypeOf(message.body)), plan_.hosts[static_cast<size_t>(host)].host);
    }
  }

  void OnChannel(const wire::Output& output) {
    const int rank = output.rank;
    channels_.Feed(rank, output.bytes);
    if (output.is_end) channels_.End(rank);
    const auto bytes = static_cast<uint32_t>(output.bytes.size());
    guard_.OnChannelRead(rank, bytes);
    if (bytes == 0) return;
    agents_.Send(guard_.AgentOf(rank),
                 {generation_, wire::Credit{rank, wire::StreamId::kChannel, bytes}});
  }

  // Workers that may have printed errors when the first one fails.
  std::vector<int> OtherRanks() const {
    std::vector<int> ranks(errors_.has_failed() ? 0 : plan_.ranks.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  JobReport MakeReport() {
    LastWords last;
    if (verdict_.first_failure) {
      last = console_->output().LastWordsOf(verdict_.first_failure->rank);
    }
    JobReport report = console_->BeginReport(plan_, std::move(verdict_), std::move(last));
    report.np = static_cast<int>(plan_.ranks.size());
    report.generations = generation_;
    report.hosts = hosts_.Report();
    report.earlier_failures.assign(earlier_failures_.begin(), earlier_failures_.end());
    report.rendezvous = kv_.store().stats();
    report.stale_questions = kv_.store().stale_questions();
    report.refused_questions = kv_.refused_questions();
    return report;
  }

  Loop& loop_;
  Trace& trace_;
  LaunchPlan plan_;
  GangDriver driver_;
  AgentSet agents_;
  WorkerGuard guard_;
  KvBridge kv_;
  HostTable hosts_;
  StartSequence start_;
  effect::StartGeneration started_{};  // the latest
  WorkerErrors errors_;
  std::set<int> lost_;
  std::deque<EarlierFailure> earlier_failures_;
  std::unique_ptr<JobConsole> console_;
  std::unique_ptr<EventLog> event_log_;
  std::unique_ptr<StdinFeeder> stdin_;
  StartProgress progress_;
  Generation generation_ = 0;
  Verdict verdict_;
  WorkerChannels channels_;
  DriverLoop<FixedLauncher, GangDriver, Event, Effect> driver_loop_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> OpenFixed(Loop& loop, Transport& transport, Trace& trace,
                                            LaunchPlan plan) {
  auto launcher = std::make_unique<FixedLauncher>(loop, transport, trace, std::move(plan));
  HVDRAY_RETURN_IF_ERROR(launcher->OpenFiles());
  return std::unique_ptr<Launcher>(std::move(launcher));
}

}  // namespace hvdray
