// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/job_launcher.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

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
      channels_(MakeChannelHandlers()),
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

Status JobLauncher::OpenConsole(JobConsole::Handlers handlers) {
  HVDRAY_RETURN_IF_ERROR(CheckReportPaths(plan_.spec));
  handlers.on_consumed = [this](int worker, uint32_t bytes) {
    const uint32_t granted = guard_.OnWritten(worker, bytes);
    if (granted == 0) return;
    SendToWorker(worker, wire::Credit{worker, wire::StreamId::kStdout, granted});
  };
  const auto on_damaged = handlers.on_damaged;
  HVDRAY_ASSIGN_OR_RETURN(console_,
                          JobConsole::Open(loop_, trace_, plan_.spec, plan_.environment, agents(),
                                           std::move(handlers), plan_.place.record_fd));
  return observers_.OpenEvents(plan_, client_->event_sink(), on_damaged);
}

// ---- workers

WorkerChannels::Handlers JobLauncher::MakeChannelHandlers() {
  WorkerChannels::Handlers handlers;
  handlers.on_hello = [this](int worker, const Json& hello) { client_->OnHello(worker, hello); };
  handlers.on_data = [this](int worker, const Json& data, ByteView piece, uint64_t at,
                            uint64_t of) { client_->OnData(worker, data, piece, at, of); };
  handlers.send = [this](int worker, wire::Stdin frame) { SendToWorker(worker, std::move(frame)); };
  handlers.give = [this](int worker, int64_t object) {
    SendToWorker(worker, wire::GiveObject{worker, object});
  };
  handlers.drop = [this](int64_t object) { DropFromHosts(object); };
  handlers.has_room = [this] { return client_->HasRoom(); };
  handlers.grant = [this](int worker, uint32_t bytes) {
    guard_.OnChannelRead(worker, bytes);
    SendToWorker(worker, wire::Credit{worker, wire::StreamId::kChannel, bytes});
  };
  handlers.on_report = [this](int worker, uint32_t number, const Json& metrics) {
    client_->OnReport(worker, number, metrics);
    RecordReport(worker, number, metrics);
  };
  handlers.on_violation = [this](int worker, const Status& why) {
    console_->Say(ChannelFaultText(fmt::format("{} {}", worker_word_, worker), why));
    FeedError(worker, ChannelError(why), {});
    SendToWorker(worker, wire::Signal{worker, SIGKILL});
  };
  return handlers;
}

void JobLauncher::SendToWorker(int worker, wire::Body body) {
  const int agent = guard_.AgentOf(worker);
  if (agent >= 0) agents().Send(agent, {guard_.GenerationOf(worker), std::move(body)});
}

void JobLauncher::StartStdin(int worker) {
  stdin_worker_ = worker;
  stdin_ = std::make_unique<StdinFeeder>(loop_, STDIN_FILENO, worker, [this, worker](auto frame) {
    SendToWorker(worker, std::move(frame));
  });
  stdin_->AddCredit(wire::kStdinWindowBytes);
}

void JobLauncher::StopStdinOf(int worker) {
  if (stdin_ && stdin_worker_ == worker) stdin_->Stop();
}

void JobLauncher::TellEnd(int worker, Duration grace) {
  if (grace > Duration::zero() && *plan_.spec.has_channel) {
    channels_.Write(worker, EndMessage(grace));
  }
}

bool JobLauncher::OnCommon(int agent, wire::Message& message) {
  if (Status status = guard_.Check(agent, message); !status.ok()) {
    agents().Reject(agent, std::move(status));
    return true;
  }
  if (auto* request = std::get_if<wire::KvRequest>(&message.body)) {
    kv().OnRequest(agent, message.generation, std::move(*request));
    return true;
  }
  if (auto* output = std::get_if<wire::Output>(&message.body)) {
    if (guard_.IsStale(message)) return true;
    if (output->stream == wire::StreamId::kChannel) {
      channels_.Take(*output);
      return true;
    }
    const bool is_stderr = output->stream == wire::StreamId::kStderr;
    console_->output().OnOutput(output->rank, output->stream, std::move(output->bytes),
                                output->is_end);
    if (is_stderr) errors_.OnStderr(console_->output(), output->rank);
    return true;
  }
  if (const auto* credit = std::get_if<wire::Credit>(&message.body)) {
    if (guard_.IsStale(message)) return true;
    if (stdin_ && credit->stream == wire::StreamId::kStdin) stdin_->AddCredit(credit->bytes);
    if (credit->stream == wire::StreamId::kChannel) {
      channels_.AddCredit(credit->rank, credit->bytes);
      client_->OnTaken();
    }
    return true;
  }
  return false;
}

void JobLauncher::OnWarmed(const std::string& host, const wire::Warmed& warmed) {
  if (const auto text = warm_starts_.OnWarmed(host, warmed)) console_->Say(*text);
}

void JobLauncher::OnIdle() {
  if (client_->is_one_gang()) console_->ShowProgress(progress_);
}

// ---- the client of hvdray serve

Status JobLauncher::OpenClient(std::optional<ServeOptions> serve) {
  if (!serve) {
    client_ = std::make_unique<OneGang>();
    return {};
  }
  HVDRAY_ASSIGN_OR_RETURN(client_, ServeSession::Open(loop_, std::move(*serve), *this));
  base_env_ = *plan_.spec.env;
  HVDRAY_RETURN_IF_ERROR(agents().OfferMemory());
  agents().RequireVersion(wire::kChannelVersion);
  return {};
}

void JobLauncher::StopGang(Duration grace, bool is_sigint_first) {
  is_sigint_first_ = is_sigint_first;
  Dismiss(grace);
}

void JobLauncher::SignalWorker(int worker, int signo) {
  SendToWorker(worker, wire::Signal{worker, signo});
}

void JobLauncher::WriteTo(int worker, std::shared_ptr<const std::string> bytes) {
  channels_.Write(worker, std::move(bytes));
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
  stdin_.reset();
  console_->Finish(
      [this](Status drained) {
        AddDrainFault(verdict_, std::move(drained));
        client_->Close(verdict_.exit_code);
      },
      // By now the keeper of a lost agent has ended, by itself or killed like the agent.
      [this] {
        for (const uint32_t pid : LostPidsHere()) EndLeftovers(plan_.job_id, pid);
      });
}

JobReport JobLauncher::BeginReport(LastWords last) {
  JobReport report = console_->BeginReport(plan_, std::move(verdict_), std::move(last));
  report.rendezvous = kv().store().stats();
  report.stale_questions = kv().store().stale_questions();
  report.refused_questions = kv().refused_questions();
  return report;
}

}  // namespace hvdray
