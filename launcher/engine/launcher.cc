#include "launcher/engine/launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "base/log.h"
#include "base/notice.h"
#include "launcher/driver/gang_cause.h"
#include "launcher/driver/gang_driver.h"
#include "launcher/driver/host_list.h"
#include "launcher/driver/late_fault.h"
#include "launcher/engine/agent_claims.h"
#include "launcher/engine/agent_set.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/job_files.h"
#include "launcher/engine/job_front.h"
#include "launcher/engine/kv_bridge.h"
#include "launcher/engine/leftovers.h"
#include "launcher/engine/start_sequence.h"
#include "launcher/engine/stdin_feeder.h"
#include "launcher/report/event_log.h"

namespace hvdray {
namespace {

void LogStateChange(const StateChange& change) {
  const std::string who = change.rank < 0 ? "gang" : fmt::format("rank {}", change.rank);
  Log(LogLevel::kDebug, fmt::format("driver[gen={}]", change.generation), "{}: {} -> {}", who,
      change.from, change.to);
}

class RealLauncher : public Launcher {
 public:
  RealLauncher(Loop& loop, Transport& transport, Trace& trace, LaunchPlan plan)
      : loop_(loop),
        trace_(trace),
        plan_(std::move(plan)),
        driver_(GangPolicyOf(plan_.spec, plan_.place), plan_.ranks,
                plan_.place.start_clock.value_or(plan_.began), &LogStateChange),
        agents_(loop, transport, NamesOf(plan_.hosts), plan_.build, WelcomeOf(plan_),
                MakeAgentHandlers()),
        kv_({.send = [this](int host,
                            wire::Message message) { agents_.Send(host, std::move(message)); },
             .has_room = [this](int host) { return agents_.HasControlRoom(host); },
             .takes_deflated = [this](int host) { return agents_.TakesDeflated(host); }}),
        start_(loop, trace, plan_, MakeStartHandlers()),
        facts_(plan_.hosts.size()),
        relay_stats_(plan_.hosts.size()),
        sync_stats_(plan_.hosts.size()) {
    progress_.host_count = static_cast<int>(plan_.hosts.size());
    progress_.np = static_cast<int>(plan_.ranks.size());
  }

  Status OpenFiles() {
    HVDRAY_RETURN_IF_ERROR(CheckReportPaths(plan_.spec));
    JobFrontHandlers handlers;
    handlers.on_stop_signal = [this](int signo) {
      is_sigint_first_ = !std::exchange(was_told_to_stop_, true) && IsSigintFirst(signo);
      Feed(event::UserSignal{signo});
    };
    handlers.on_forward_signal = [this](int signo) {
      const wire::Signal signal = {-1, signo};
      if (progress_.workers_started > 0) return agents_.SendAll({generation_, signal});
      front_->Say("there is no worker yet to pass the signal on to");
    };
    handlers.on_reader_gone = [this] { Feed(event::ReaderGone{}); };
    handlers.on_damaged = [this](Status why) { Feed(event::OutputDamaged{std::move(why)}); };
    handlers.on_output_blocked = [this](bool is_blocked) {
      Feed(event::OutputBlocked{is_blocked});
    };
    handlers.on_consumed = [this](int rank, uint32_t bytes) { ReturnCredit(rank, bytes); };
    HVDRAY_ASSIGN_OR_RETURN(front_,
                            JobFront::Open(loop_, trace_, plan_.spec, plan_.environment, agents_,
                                           std::move(handlers), plan_.place.record_fd));
    if (plan_.spec.events_file->empty()) return {};
    EventLogOptions events = EventOptionsOf(plan_);
    events.on_damaged = [this](Status why) { Feed(event::OutputDamaged{std::move(why)}); };
    HVDRAY_ASSIGN_OR_RETURN(event_log_, EventLog::Open(loop_, std::move(events)));
    return {};
  }

  JobReport Run() override {
    front_->Run([this] {
      trace_.Begin(kPhaseHello, loop_.Now());
      Log(LogLevel::kInfo, "launcher", "starting agents on {}",
          CompressHostList(NamesOf(plan_.hosts)));
      front_->ShowProgress(progress_);
      agents_.StartAll();
      ArmTimer();
    });
    return MakeReport();
  }

  void StopBy(int signo) override { front_->OnStopSignal(signo); }
  void Print(std::span<const std::string> lines) override { front_->Print(lines); }

 private:
  AgentSetHandlers MakeAgentHandlers() {
    AgentSetHandlers handlers;
    handlers.on_ready = [this](int host, const wire::HostFacts& facts) {
      facts_[static_cast<size_t>(host)] = facts;
      Log(LogLevel::kInfo, "host " + plan_.hosts[static_cast<size_t>(host)].host,
          "its agent is ready: process {}, {} CPUs", facts.agent_pid, facts.cpu_count);
      ++progress_.hosts_ready;
      Feed(event::HostReady{host, facts});
    };
    handlers.on_lost = [this](int host, Status why) {
      kv_.DropHost(host);
      start_.Drop();
      lost_.insert(static_cast<size_t>(host));
      Feed(event::HostLost{host, std::move(why)});
    };
    handlers.on_control_room = [this](int host) { kv_.OnRoom(host); };
    handlers.on_message = [this](int host, wire::Message&& m) { OnMessage(host, std::move(m)); };
    handlers.on_noise = [this](int host, ByteView line) {
      front_->output().Say(
          NoticeLine(LogLevel::kInfo, plan_.hosts[static_cast<size_t>(host)].host, line));
    };
    return handlers;
  }

  StartSequenceHandlers MakeStartHandlers() {
    StartSequenceHandlers handlers;
    handlers.send = [this](int host, wire::Body body) {
      agents_.Send(host, {generation_, std::move(body)});
    };
    handlers.on_failed = [this](int host, Status why) {
      Feed(event::HostLost{host, std::move(why)});
    };
    handlers.on_copying = [this](bool is_active) { Feed(event::Copying{is_active}); };
    handlers.on_synced = [this](int host, const SyncStats& stats) {
      sync_stats_[static_cast<size_t>(host)] = stats;
      Feed(event::HostSynced{host, stats});
    };
    handlers.on_ready = [this](const std::vector<NicChoice>& nics) { SendStart(nics); };
    return handlers;
  }

  // Feeds one fact to all observers and the driver, then does what the driver wants. A fact that
  // comes up while effects are applied waits for its turn.
  void Feed(Event event) {
    pending_.push_back(std::move(event));
    if (is_feeding_) return;
    is_feeding_ = true;
    while (!pending_.empty()) {
      const Event next = std::move(pending_.front());
      pending_.pop_front();
      FeedOne(next);
    }
    is_feeding_ = false;
    front_->ShowProgress(progress_);
    ArmTimer();
  }

  void FeedOne(const Event& event) {
    if (front_->is_finishing()) {
      AddLateFault(verdict_, event);
      return;
    }
    const TimePoint now = loop_.Now();
    trace_.OnEvent(event, now);
    if (event_log_) event_log_->OnEvent(event, now);
    for (const Effect& effect : driver_.Handle(event, now)) {
      trace_.OnEffect(effect, now);
      if (event_log_) event_log_->OnEffect(effect, now);
      std::visit([this](const auto& e) { Apply(e); }, effect);
    }
  }

  void ArmTimer() {
    const auto deadline = front_->is_finishing() ? std::nullopt : driver_.NextDeadline();
    if (deadline == armed_) return;
    armed_ = deadline;
    tick_timer_.Cancel();
    if (!deadline) return;
    tick_timer_ = loop_.After(*deadline - loop_.Now(), [this] {
      armed_.reset();
      Feed(event::Tick{});
    });
  }

  void Apply(const effect::StartGeneration& start) {
    generation_ = start.generation;
    has_failed_ = false;
    errors_.clear();
    recorded_errors_.clear();
    front_->SetGeneration(generation_);
    progress_.workers_started = 0;
    NoteEarlierFailure();
    claims_.StartGeneration(start.generation, start.ranks);
    front_->output().StartGeneration(start.ranks);
    started_ = start;
    start_.Begin(start.generation, facts_);
  }

  // Before the next attempt's output takes the place of the last one's.
  void NoteEarlierFailure() {
    const std::optional<WorkerRecord>& failure = driver_.earlier_failure();
    if (!failure) return;
    earlier_failures_.push_back({*failure, front_->output().LastWordsOf(failure->rank)});
    if (earlier_failures_.size() > kMaxEarlierFailures) earlier_failures_.pop_front();
  }

  void SendStart(const std::vector<NicChoice>& nics) {
    const effect::StartGeneration& start = started_;
    Log(LogLevel::kInfo, "launcher", "starting ranks 0 to {} on {} (generation {})",
        start.ranks.size() - 1, CompressHostList(NamesOf(plan_.hosts)), start.generation);
    kv_.Reset(RanksForWorkers(plan_, start.ranks), start.generation);
    stdin_.reset();
    std::vector<wire::StartGeneration> messages =
        MakeStartMessages(plan_, start, nics, start_.worker_folders());
    for (size_t host = 0; host < messages.size(); ++host) {
      agents_.Send(static_cast<int>(host), {start.generation, wire::KvReset{}});
      agents_.Send(static_cast<int>(host), {start.generation, std::move(messages[host])});
    }
    StartStdin(start.ranks);
  }

  void StartStdin(const std::vector<RankInfo>& ranks) {
    const auto& rank = *plan_.spec.stdin_rank;
    // A second generation finds the stream half read: it gets none, as a restarted command would.
    if (!rank || generation_ > 1) return;
    const int host = ranks[static_cast<size_t>(*rank)].host_index;
    stdin_ = std::make_unique<StdinFeeder>(loop_, STDIN_FILENO, *rank, [this, host](auto frame) {
      agents_.Send(host, {generation_, std::move(frame)});
    });
    stdin_->AddCredit(kStdinWindowBytes);
  }

  void Apply(const effect::StopGeneration& stop) {
    const bool is_sigint_first = is_sigint_first_ && stop.grace > Duration::zero();
    Log(LogLevel::kInfo, "launcher", "stopping all workers: {}",
        WayOfStop(is_sigint_first, stop.grace));
    start_.Drop();
    const auto grace = std::chrono::duration_cast<std::chrono::milliseconds>(stop.grace).count();
    for (const int host : stop.hosts) {
      if (is_sigint_first) agents_.Send(host, {stop.generation, wire::Signal{-1, SIGINT}});
      agents_.Send(host, {stop.generation, wire::StopGeneration{static_cast<uint32_t>(grace)}});
    }
  }

  void Apply(const effect::Say& say) { front_->Say(say.text); }

  void Apply(const effect::Finish& finish) {
    verdict_ = finish.verdict;
    start_.Drop();
    stdin_.reset();
    front_->Finish([this](Status drained) { AddDrainFault(verdict_, std::move(drained)); },
                   [this] { EndLeftoversOfLostAgents(); });
  }

  // The keeper of a lost agent has ended by now, by itself or killed like the agent.
  void EndLeftoversOfLostAgents() {
    for (const size_t host : lost_) {
      if (!plan_.is_remote[host]) EndLeftovers(plan_.job_id, facts_[host].agent_pid);
    }
  }

  void OnMessage(int host, wire::Message&& message) {
    if (Status status = claims_.Check(host, message); !status.ok()) {
      agents_.Reject(host, std::move(status));
      return;
    }
    const Generation generation = message.generation;
    if (auto* kv = std::get_if<wire::KvRequest>(&message.body)) {
      kv_.OnRequest(host, generation, std::move(*kv));
    } else if (auto* output = std::get_if<wire::Output>(&message.body)) {
      if (claims_.IsStale(message)) return;
      const bool is_stderr = output->stream == wire::StreamId::kStderr;
      front_->output().OnOutput(output->rank, output->stream, std::move(output->bytes),
                                output->is_end);
      if (is_stderr && has_failed_) FeedError(output->rank, std::nullopt);
    } else if (const auto* started = std::get_if<wire::WorkerStarted>(&message.body)) {
      if (generation == generation_) ++progress_.workers_started;
      Feed(event::WorkerStarted{generation, started->rank, started->pid});
    } else if (const auto* exited = std::get_if<wire::WorkerExited>(&message.body)) {
      if (stdin_ && *plan_.spec.stdin_rank == exited->rank) stdin_->Stop();
      Log(LogLevel::kInfo, "launcher", "rank {} {}", exited->rank, Describe(exited->status));
      if (generation == generation_ && !exited->status.is_success()) FeedLastWords(*exited);
      Feed(event::WorkerExited{generation, exited->rank, exited->status, exited->was_stopping});
    } else if (const auto* stopped = std::get_if<wire::GenerationStopped>(&message.body)) {
      relay_stats_[static_cast<size_t>(host)] = stopped->relay;
      Feed(event::GenerationStopped{generation, host, stopped->swept, stopped->offered_port});
    } else if (const auto* credit = std::get_if<wire::Credit>(&message.body)) {
      if (stdin_ && credit->stream == wire::StreamId::kStdin) stdin_->AddCredit(credit->bytes);
    } else if (!start_.OnMessage(host, message)) {
      Log(LogLevel::kDebug, "launcher", "ignored {} from {}",
          wire::NameOf(wire::TypeOf(message.body)), plan_.hosts[static_cast<size_t>(host)].host);
    }
  }

  // What a worker that has failed says of its error; at the first failure, what all others do.
  void FeedLastWords(const wire::WorkerExited& exited) {
    if (!exited.recorded_error.empty()) recorded_errors_[exited.rank] = exited.recorded_error;
    const bool is_first = !std::exchange(has_failed_, true);
    for (int rank = 0; is_first && rank < progress_.np; ++rank) {
      if (rank != exited.rank) FeedError(rank, std::nullopt);
    }
    std::optional<Duration> age;
    if (exited.error_age_ms >= 0) age = std::chrono::milliseconds(exited.error_age_ms);
    FeedError(exited.rank, age);
  }

  void FeedError(int rank, std::optional<Duration> age) {
    LastError error = front_->output().ErrorOf(rank);
    const auto recorded = recorded_errors_.find(rank);
    if (error.text.empty() && recorded != recorded_errors_.end()) {
      error = ReadRecordedError(recorded->second);
    }
    LastError& known = errors_[rank];
    if (error == known && !age) return;
    known = error;
    Feed(event::WorkerErred{generation_, rank, std::move(error), age});
  }

  void ReturnCredit(int rank, uint32_t bytes) {
    const int host = claims_.HostOf(rank);
    const uint32_t granted = claims_.OnWritten(rank, bytes);
    if (host < 0 || granted == 0) return;
    agents_.Send(host, {generation_, wire::Credit{rank, wire::StreamId::kStdout, granted}});
  }

  JobReport MakeReport() {
    JobReport report;
    report.job_id = plan_.job_id;
    report.build = plan_.build;
    report.command = *plan_.spec.command;
    report.np = static_cast<int>(plan_.ranks.size());
    report.generations = generation_;
    for (size_t i = 0; i < plan_.hosts.size(); ++i) {
      const HostSlots& host = plan_.hosts[i];
      report.hosts.push_back({host.host, host.slots, facts_[i], relay_stats_[i], sync_stats_[i]});
    }
    if (verdict_.first_failure) {
      LastWords words = front_->output().LastWordsOf(verdict_.first_failure->rank);
      report.last_lines = std::move(words.err);
      report.last_stdout = std::move(words.out);
    }
    report.earlier_failures.assign(earlier_failures_.begin(), earlier_failures_.end());
    report.verdict = std::move(verdict_);
    report.damaged_files = front_->output().DamagedFiles();
    report.rendezvous = kv_.store().stats();
    report.stale_questions = kv_.store().stale_questions();
    report.refused_questions = kv_.store().refused_questions();
    report.is_peer_checked = *plan_.spec.is_peer_checked;
    report.phases = trace_.phases();
    report.began = plan_.began;
    report.began_wall = plan_.began_wall;
    return report;
  }

  Loop& loop_;
  Trace& trace_;
  LaunchPlan plan_;
  GangDriver driver_;
  AgentSet agents_;
  AgentClaims claims_;
  KvBridge kv_;
  StartSequence start_;
  effect::StartGeneration started_{};           // the last one
  bool has_failed_ = false;                     // A worker of this generation.
  std::map<int, LastError> errors_;             // By rank: what the driver was told of them.
  std::map<int, std::string> recorded_errors_;  // By rank: TORCHELASTIC_ERROR_FILE.
  std::vector<wire::HostFacts> facts_;
  std::set<size_t> lost_;
  std::deque<EarlierFailure> earlier_failures_;
  bool was_told_to_stop_ = false;
  bool is_sigint_first_ = false;  // The next stop begins with it.
  std::vector<RelayStats> relay_stats_;
  std::vector<std::optional<SyncStats>> sync_stats_;
  std::deque<Event> pending_;
  bool is_feeding_ = false;
  std::unique_ptr<JobFront> front_;
  std::unique_ptr<EventLog> event_log_;
  std::unique_ptr<StdinFeeder> stdin_;
  StartProgress progress_;
  Generation generation_ = 0;
  Verdict verdict_;
  std::optional<TimePoint> armed_;
  Watch tick_timer_;
};

}  // namespace

Result<std::unique_ptr<Launcher>> Launcher::Open(Loop& loop, Transport& transport, Trace& trace,
                                                 LaunchPlan plan) {
  auto launcher = std::make_unique<RealLauncher>(loop, transport, trace, std::move(plan));
  HVDRAY_RETURN_IF_ERROR(launcher->OpenFiles());
  return std::unique_ptr<Launcher>(std::move(launcher));
}

}  // namespace hvdray
