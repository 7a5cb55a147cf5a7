#include "launcher/engine/job_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.h"
#include "base/notice.h"
#include "launcher/engine/job_files.h"
#include "launcher/engine/signals.h"

namespace hvdray {
namespace {

// After a stop that somebody asked for, a reader that does not read is not waited for longer; but
// each step of the end gives it a moment.
constexpr Duration kDrainLimit = std::chrono::seconds(5);
constexpr Duration kLastDrain = std::chrono::milliseconds(500);
constexpr Duration kPausePoll = std::chrono::milliseconds(5);
// An agent that does not read now may never: whoever typed ^Z wants the terminal back.
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

JobFront::JobFront(Loop& loop, Trace& trace, const JobSpec& spec, const Environment& environment,
                   AgentSet& agents, JobFrontHandlers handlers)
    : loop_(loop),
      trace_(trace),
      spec_(spec),
      environment_(environment),
      agents_(agents),
      handlers_(std::move(handlers)) {}

Result<std::unique_ptr<JobFront>> JobFront::Open(Loop& loop, Trace& trace, const JobSpec& spec,
                                                 const Environment& environment, AgentSet& agents,
                                                 JobFrontHandlers handlers, int record_fd) {
  std::unique_ptr<JobFront> front(
      new JobFront(loop, trace, spec, environment, agents, std::move(handlers)));
  JobFront* raw = front.get();
  JobOutputHandlers output;
  output.on_consumed = [raw](int worker, uint32_t bytes) {
    raw->handlers_.on_consumed(worker, bytes);
  };
  output.on_reader_gone = [raw] { raw->handlers_.on_reader_gone(); };
  output.on_damaged = [raw](Status why) { raw->handlers_.on_damaged(std::move(why)); };
  JobOutputOptions options = OutputOptionsOf(spec);
  options.record_fd = record_fd;
  HVDRAY_ASSIGN_OR_RETURN(front->output_, JobOutput::Open(loop, std::move(options), output));
  if (const auto strangers = front->output_->StrangersInFolder(); !strangers.empty()) {
    front->Say(fmt::format("{} of another run {} in {} (--output-filename)", Listed(strangers),
                           strangers.size() == 1 ? "is" : "are", *spec.output_folder));
  }
  return front;
}

void JobFront::Say(std::string_view text) {
  if (!*spec_.is_quiet) output_->Say(NoticeLine(LogLevel::kInfo, "hvdray", text));
}

void JobFront::ShowProgress(const StartProgress& progress) {
  if (style_.is_progress_shown && !is_finishing_) output_->ShowProgress(ProgressText(progress));
}

void JobFront::Run(const std::function<void()>& begin) {
  style_ = ChooseStyle(output_->IsStderrTerminal(), *spec_.color, *spec_.is_quiet, environment_);
  if (IsLogJson()) style_ = {};
  SignalHandlers signal_handlers;
  signal_handlers.on_stop = [this](int signo) { OnStopSignal(signo); };
  signal_handlers.on_forward = handlers_.on_forward_signal;
  signal_handlers.on_pause = [this](const std::function<void()>& stop_now) { Pause(stop_now); };
  signal_handlers.on_resume = [this] { agents_.SendAll({generation_, wire::Heartbeat{false}}); };
  UserSignals signals(loop_, std::move(signal_handlers));
  const LogSink log([this](std::string_view line) { output_->Say(line); });
  begin();
  blocked_timer_ = loop_.Every(kBlockedPoll, [this] { WatchReader(); });
  loop_.Run();
}

void JobFront::OnStopSignal(int signo) {
  if (is_finishing_) {
    // The job is over and only its output or an agent is waited for: go.
    loop_.Stop();
    return;
  }
  if (!told_to_stop_at_) told_to_stop_at_ = loop_.Now();
  handlers_.on_stop_signal(signo);
}

void JobFront::Pause(const std::function<void()>& stop_now) {
  agents_.SendAll({generation_, wire::Heartbeat{true}});
  WaitFlushed(stop_now, loop_.Now() + kPauseLimit);
}

void JobFront::WaitFlushed(const std::function<void()>& then, TimePoint until) {
  if (agents_.IsFlushed() || loop_.Now() >= until) {
    then();
    return;
  }
  pause_timer_ = loop_.After(kPausePoll, [this, then, until] { WaitFlushed(then, until); });
}

// A pager that shows a page and waits is no reason to give an agent up.
void JobFront::WatchReader() {
  const bool is_blocked = output_->IsBlocked();
  if (is_blocked == was_blocked_) return;
  was_blocked_ = is_blocked;
  handlers_.on_output_blocked(is_blocked);
}

void JobFront::Finish(std::function<void(Status drained)> on_drained,
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

std::optional<Duration> JobFront::DrainLimit() const {
  if (!told_to_stop_at_) return std::nullopt;
  return std::max<Duration>(*told_to_stop_at_ + kDrainLimit - loop_.Now(), kLastDrain);
}

void JobFront::Print(std::span<const std::string> lines) {
  for (const std::string& line : lines) output_->Say(line);
  output_->Drain(DrainLimit(), [this](const Status&) { loop_.Stop(); });
  loop_.Run();
}

}  // namespace hvdray
