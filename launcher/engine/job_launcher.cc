// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/job_launcher.h"

#include <fmt/format.h>

#include <utility>

#include "base/log.h"
#include "launcher/engine/generation_start.h"
#include "launcher/engine/leftovers.h"
#include "launcher/job/user_variables.h"

namespace hvdray {

JobLauncher::JobLauncher(Loop& loop, Trace& trace, LaunchPlan plan, std::string_view worker_word)
    : loop_(loop),
      trace_(trace),
      plan_(std::move(plan)),
      errors_([this](int worker, LastError error, std::optional<Duration> age) {
        FeedError(worker, std::move(error), age);
      }),
      observers_(loop, trace),
      worker_word_(worker_word) {}

JobReport JobLauncher::Run() {
  console_->Begin();
  trace_.Begin(kPhaseHello, loop_.Now());
  Start();
  console_->Run();
  return MakeReport();
}

void JobLauncher::Say(std::string_view line) {
  console_->output().Say(NoticeLine(LogLevel::kInfo, "hvdray", line));
}

Status JobLauncher::OpenConsole() {
  HVDRAY_RETURN_IF_ERROR(CheckReportPaths(plan_.spec));
  HVDRAY_ASSIGN_OR_RETURN(
      console_, JobConsole::Open(loop_, trace_, plan_.spec, plan_.environment, agents().links(),
                                 *this, plan_.place.record_fd));
  return observers_.OpenEvents(plan_, client_->event_sink(), [this](Status why) {
    OnUserEvent(event::OutputDamaged{std::move(why)});
  });
}

void JobLauncher::OnUserEvent(UserEvent event) {
  if (const auto* signal = std::get_if<event::UserSignal>(&event)) {
    EndServing(InterruptedCause(signal->signo));
  } else if (std::holds_alternative<event::ReaderGone>(event)) {
    EndServing(ReaderGoneCause());
  }
  FeedUserEvent(std::move(event));
}

// ---- workers

bool JobLauncher::OnCommon(int agent, wire::Message& message) {
  const Result<bool> is_done = workers_->OnMessage(agent, message);
  if (!is_done.ok()) {
    agents().links().Reject(agent, is_done.status());
    return true;
  }
  if (*is_done) return true;
  auto* request = std::get_if<wire::KvRequest>(&message.body);
  if (request == nullptr) return false;
  agents().kv().OnRequest(agent, message.generation, std::move(*request));
  return true;
}

void JobLauncher::OnOutput(wire::Output& output) {
  console_->output().OnOutput(output.rank, output.stream, std::move(output.bytes), output.is_end);
  if (output.stream == wire::StreamId::kStderr) errors_.OnStderr(console_->output(), output.rank);
}

void JobLauncher::OnViolation(int worker, const Status& why) {
  console_->Say(ChannelFaultText(fmt::format("{} {}", worker_word_, worker), why));
  FeedError(worker, ChannelError(why), {});
}

void JobLauncher::OnWarmed(const std::string& host, Generation generation,
                           const wire::Warmed& warmed) {
  observers_.OnWarmed(host, generation, warmed);
  if (const auto text = warm_starts_.OnWarmed(host, warmed)) console_->Say(*text);
}

void JobLauncher::OnIdle() {
  if (client_->is_one_gang()) console_->ShowProgress(progress_);
}

// ---- the client of hvdray serve

Status JobLauncher::OpenClient(std::optional<ServeOptions> serve) {
  WorkerLinks::Owner& owner = *this;
  workers_ = std::make_unique<WorkerLinks>(loop_, agents().links(), agents().objects(),
                                           *plan_.spec.has_channel, owner);
  if (serve || *plan_.spec.has_channel) agents().links().RequireVersion(wire::kChannelVersion);
  if (!serve) {
    client_ = std::make_unique<OneGang>();
    return {};
  }
  HVDRAY_ASSIGN_OR_RETURN(client_, ServeSession::Open(loop_, std::move(*serve), *this, *workers_));
  base_env_ = *plan_.spec.env;
  return agents().links().OfferMemory();
}

void JobLauncher::StopGang(Duration grace, bool is_sigint_first) {
  is_sigint_first_ = is_sigint_first;
  Dismiss(grace);
}

void JobLauncher::PutObject(const wire::ObjectPiece& piece) {
  agents().objects().Add(piece, client_->gone_clients());
}

bool JobLauncher::MapObject(int64_t object, const std::shared_ptr<const UniqueFd>& memory) {
  return agents().objects().AddMemory(object, memory, client_->gone_clients());
}

void JobLauncher::OnceWritten(std::function<void()> done) {
  console_->output().OnceWritten(std::move(done));
}

void JobLauncher::SayThreads(const std::map<int, wire::StartGeneration>& messages) {
  if (!client_->is_one_gang()) return;
  if (const std::string notice = ThreadsNotice(messages); !notice.empty()) console_->Say(notice);
}

Result<std::vector<std::string>> JobLauncher::EnvironmentOf(
    const std::map<std::string, std::string>& added) const {
  std::vector<std::string> env = base_env_;
  for (const auto& [name, value] : added) {
    env.push_back(fmt::format("{}={}", name, value));
    HVDRAY_RETURN_IF_ERROR(CheckUserVariable(plan_.spec, "env", env.back()));
  }
  return env;
}

void JobLauncher::EndServing(const Cause& cause) {
  if (!serve_end_.Ask(ToVerdict(cause, plan_.began, loop_.Now()))) return;
  // Maybe from within a handler of the client's link.
  if (!HasGang()) loop_.Post([this] { FinishServing(); });
}

void JobLauncher::FinishServing() {
  if (!serve_end_.Finish()) return;
  verdict_ = serve_end_.verdict();
  OnServeEnd();
  FinishConsole();
}

// ---- the end

void JobLauncher::FinishConsole() {
  workers_->DropStdin();
  console_->Finish(
      [this](Status drained) {
        AddDrainFault(verdict_, std::move(drained));
        client_->Close(verdict_.exit_code);
      },
      // By now the keeper of a lost agent has ended, by itself or killed like the agent.
      [this] {
        for (const uint32_t pid : agents().lost_here()) EndLeftovers(plan_.job_id, pid);
      });
}

JobReport JobLauncher::BeginReport(LastWords last) {
  JobReport report = console_->BeginReport(plan_, std::move(verdict_), std::move(last));
  report.rendezvous = agents().kv().store().stats();
  report.stale_questions = agents().kv().store().stale_questions();
  report.refused_questions = agents().kv().refused_questions();
  return report;
}

}  // namespace hvdray
