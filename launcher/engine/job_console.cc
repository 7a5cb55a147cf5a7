// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/job_console.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/report_file.h"
#include "base/screen.h"
#include "launcher/driver/cause.h"

namespace hvdray {
namespace {

// After a requested stop, the longest wait for a reader that does not read; each step of the
// shutdown waits anew.
constexpr Duration kDrainLimit = std::chrono::seconds(5);
constexpr Duration kLastDrain = std::chrono::milliseconds(500);
constexpr Duration kPausePoll = std::chrono::milliseconds(5);
// An agent that does not read may never read: the user who typed ^Z wants the terminal back.
constexpr Duration kPauseLimit = std::chrono::seconds(1);
constexpr Duration kBlockedPoll = std::chrono::milliseconds(250);

// "rank.4, rank.5 and 12 more"
std::string Listed(std::span<const std::string> names) {
  constexpr size_t kShown = 4;
  const size_t shown = names.size() > kShown + 1 ? kShown : names.size();
  std::string text = fmt::format("{}", fmt::join(names.first(shown), ", "));
  if (shown < names.size()) text += fmt::format(" and {} more", names.size() - shown);
  return text;
}

}  // namespace

JobConsole::JobConsole(Loop& loop, Trace& trace, const JobSpec& spec,
                       const Environment& environment, AgentSet& agents, Owner& owner)
    : loop_(loop),
      trace_(trace),
      spec_(spec),
      environment_(environment),
      agents_(agents),
      owner_(owner) {}

Result<std::unique_ptr<JobConsole>> JobConsole::Open(Loop& loop, Trace& trace, const JobSpec& spec,
                                                     const Environment& environment,
                                                     AgentSet& agents, Owner& owner,
                                                     int record_fd) {
  std::unique_ptr<JobConsole> console(
      new JobConsole(loop, trace, spec, environment, agents, owner));
  JobOutputHandlers output;
  output.on_consumed = [&owner](int worker, uint32_t bytes) { owner.OnConsumed(worker, bytes); };
  output.on_reader_gone = [&owner] { owner.OnUserEvent(event::ReaderGone{}); };
  output.on_damaged = [&owner](Status why) {
    owner.OnUserEvent(event::OutputDamaged{std::move(why)});
  };
  JobOutputOptions options = OutputOptions(spec);
  options.record_fd = record_fd;
  HVDRAY_ASSIGN_OR_RETURN(console->output_, JobOutput::Open(loop, std::move(options), output));
  if (const auto foreign_directories = console->output_->ForeignDirectories();
      !foreign_directories.empty()) {
    console->Say(
        fmt::format("{} of another run {} in {} (--output-filename)", Listed(foreign_directories),
                    foreign_directories.size() == 1 ? "is" : "are", *spec.output_filename));
  }
  return console;
}

void JobConsole::Say(std::string_view text) {
  if (!*spec_.is_quiet) output_->Say(NoticeLine(LogLevel::kInfo, "hvdray", text));
}

void JobConsole::ShowProgress(const StartProgress& progress) {
  // In the background it would paint over the prompt of the shell.
  if (style_.is_progress_shown && !is_finishing_ && IsInForeground(STDERR_FILENO)) {
    output_->ShowProgress(ProgressText(progress));
  }
}

void JobConsole::Begin() {
  style_ = ChooseStyle(output_->IsStderrTerminal(), *spec_.color, *spec_.is_quiet, environment_);
  if (IsLogJson()) style_ = {};
  SignalHandlers signal_handlers;
  signal_handlers.on_stop = [this](int signo) { OnStopSignal(signo); };
  signal_handlers.on_forward = [this](int signo) { owner_.OnForwardSignal(signo); };
  signal_handlers.on_pause = [this](const std::function<void()>& stop_now) { Pause(stop_now); };
  signal_handlers.on_resume = [this] { agents_.SendAll({generation_, wire::Heartbeat{false}}); };
  signals_.emplace(loop_, std::move(signal_handlers));
  log_.emplace([this](std::string_view line) { output_->Say(line); });
  blocked_timer_ = loop_.Every(kBlockedPoll, [this] { WatchReader(); });
}

void JobConsole::Run() {
  loop_.Run();
  agents_.EndStarts();  // while another ^C cannot end us before it is done
  log_.reset();
  signals_.reset();
}

void JobConsole::OnStopSignal(int signo) {
  if (is_finishing_) {
    // The job is over; only its output or an agent is pending: exit.
    loop_.Stop();
    return;
  }
  is_sigint_first_ = !told_to_stop_at_ && IsSigintFirst(signo);
  if (!told_to_stop_at_) told_to_stop_at_ = loop_.Now();
  owner_.OnUserEvent(event::UserSignal{signo});
}

std::vector<wire::Body> JobConsole::StopOrders(Duration grace, bool wants_sigint_first) const {
  const bool is_sigint_first = (is_sigint_first_ || wants_sigint_first) && grace > Duration::zero();
  Log(LogLevel::kInfo, "launcher", "stopping all workers: {}", WayOfStop(is_sigint_first, grace));
  std::vector<wire::Body> orders;
  if (is_sigint_first) orders.emplace_back(wire::Signal{-1, SIGINT});
  orders.emplace_back(wire::StopGeneration{Milliseconds(grace)});
  return orders;
}

void JobConsole::Pause(const std::function<void()>& stop_now) {
  is_pause_told_ = false;
  Say(
      fmt::format("paused: the workers continue on all hosts, and their output waits; 'fg' or "
                  "'kill -CONT {}' continues hvdray",
                  ::getpid()));
  output_->OnceWritten([this] { is_pause_told_ = true; });
  agents_.SendAll({generation_, wire::Heartbeat{true}});
  WaitFlushed(stop_now, loop_.Now() + kPauseLimit);
}

void JobConsole::WaitFlushed(const std::function<void()>& then, TimePoint until) {
  if ((is_pause_told_ && agents_.IsFlushed()) || loop_.Now() >= until) {
    then();
    return;
  }
  pause_timer_ = loop_.After(kPausePoll, [this, then, until] { WaitFlushed(then, until); });
}

// A pager that waits for its user is no reason to give up an agent.
void JobConsole::WatchReader() {
  const bool is_blocked = output_->IsBlocked();
  if (is_blocked == was_blocked_) return;
  was_blocked_ = is_blocked;
  owner_.OnUserEvent(event::OutputBlocked{is_blocked});
}

void JobConsole::Finish(std::function<void(Status drained)> on_drained,
                        std::function<void()> on_closed) {
  is_finishing_ = true;
  trace_.Begin("drain", loop_.Now());
  output_->Drain(DrainLimit(), [this, on_drained = std::move(on_drained),
                                on_closed = std::move(on_closed)](Status drained) {
    on_drained(std::move(drained));
    trace_.End("drain", loop_.Now());
    trace_.Begin("close_agents", loop_.Now());
    agents_.Close(kAgentsCloseLimit, [this, on_closed] {
      on_closed();
      trace_.End("close_agents", loop_.Now());
      loop_.Stop();
    });
  });
}

std::optional<Duration> JobConsole::DrainLimit() const {
  if (!told_to_stop_at_) return std::nullopt;
  return std::max<Duration>(*told_to_stop_at_ + kDrainLimit - loop_.Now(), kLastDrain);
}

JobReport JobConsole::BeginReport(const LaunchPlan& plan, Verdict verdict, LastWords last) const {
  JobReport report;
  report.job_id = plan.job_id;
  report.build = plan.build;
  report.command = *spec_.command;
  report.np = *spec_.np;
  report.last_lines = std::move(last.err);
  report.last_stdout = std::move(last.out);
  report.verdict = std::move(verdict);
  report.damaged_files = output_->DamagedFiles();
  report.is_peer_checked = *spec_.is_peer_checked;
  report.phases = trace_.phases();
  report.began = plan.began;
  report.began_wall = plan.began_wall;
  return report;
}

void JobConsole::Print(std::span<const std::string> lines) {
  for (const std::string& line : lines) output_->Say(line);
  output_->Drain(DrainLimit(), [this](const Status&) { loop_.Stop(); });
  loop_.Run();
}

std::vector<std::string> Names(const std::vector<HostSlots>& hosts) {
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const HostSlots& host : hosts) names.push_back(host.host);
  return names;
}

std::string NamedBy(const Setting<std::string>& file, std::string_view option) {
  const std::string& origin = file.origin();
  if (origin.starts_with("flag ")) return origin.substr(5);
  if (file.is_default() || origin.starts_with("env ")) return fmt::format("--{}", option);
  return fmt::format("{}: {}", origin, option);
}

Status CheckReportPaths(const JobSpec& spec) {
  for (const auto& [file, option] :
       {std::pair(&spec.report_file, "report"), std::pair(&spec.junit_file, "junit"),
        std::pair(&spec.trace_file, "trace")}) {
    if ((*file)->empty()) continue;
    HVDRAY_RETURN_IF_ERROR(CheckReportPath(**file, NamedBy(*file, option)));
  }
  return {};
}

JobOutputOptions OutputOptions(const JobSpec& spec) {
  JobOutputOptions options;
  options.tag = *spec.tag_output;
  options.is_timestamped = *spec.is_timestamped;
  options.directory = *spec.output_filename;
  options.np = *spec.np;
  options.asking_worker = spec.stdin_rank->value_or(-1);
  return options;
}

EventLogOptions EventOptions(const LaunchPlan& plan) {
  EventLogOptions options;
  options.path = *plan.spec.events_file;
  options.option = NamedBy(plan.spec.events_file, "events");
  options.job_id = plan.job_id;
  options.build = plan.build;
  options.command = *plan.spec.command;
  options.np = *plan.spec.np;
  options.hosts = Names(plan.hosts);
  options.began = plan.began;
  options.began_wall = plan.began_wall;
  return options;
}

}  // namespace hvdray
