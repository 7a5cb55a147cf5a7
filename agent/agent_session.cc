// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "agent/host_inspection.h"
#include "base/environ.h"
#include "base/gzip.h"
#include "base/log.h"
#include "base/sealed_memory.h"
#include "base/secrets_equal.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

// Smaller values, those of jobs with fewer than some thirty workers, are sent as they are.
constexpr size_t kMinDeflatedBytes = 4096;
constexpr Duration kStopPatience = std::chrono::seconds(2);

// Addresses are mostly zeros. A value that does not shrink by a quarter is sent as it is.
void DeflateValue(wire::KvRequest& request) {
  const size_t size = request.value.size();
  if (size < kMinDeflatedBytes) return;
  Result<std::string> deflated = Deflate(request.value);
  if (!deflated.ok() || deflated->size() > size - size / 4) return;
  request.value = std::move(deflated).value();
  request.inflated_bytes = static_cast<uint32_t>(size);
}

// The launcher's memory can be mapped here. A process of the same number on another machine has no
// such token.
bool FindsToken(const wire::Welcome& welcome) {
  UniqueFd memory;
  if (welcome.memory_pid == 0 || welcome.memory_token.empty()) return false;
  if (OpenSealedMemory(welcome.memory_pid, welcome.memory_descriptor, memory) != 0) return false;
  const Result<std::string> token = ReadMemory(memory.get(), 0, welcome.memory_token.size() + 1);
  return token.ok() && SecretsEqual(welcome.memory_token, *token);
}

}  // namespace

AgentSession::AgentSession(Loop& loop, std::unique_ptr<ByteStream> stream,
                           AgentSessionOptions options, std::function<void(int)> on_done)
    : loop_(loop),
      options_(std::move(options)),
      on_done_(std::move(on_done)),
      link_(wire::MakeLink(loop, wire::LinkRole::kAgent, std::move(stream))) {}

AgentSession::~AgentSession() = default;

void AgentSession::Start() {
  HoldPort();
  wire::Hello hello;
  hello.build = options_.build;
  hello.facts = options_.facts;
  hello.facts.offered_port = port_ ? port_->port() : 0;
  if (options_.has_probe_listener) {
    Result<std::unique_ptr<ProbeListener>> listener = ProbeListener::Open(loop_);
    if (listener.ok()) {
      probe_listener_ = std::move(listener).value();
      hello.facts.probe_port = probe_listener_->port();
      hello.facts.measures = true;
    } else {
      Log(LogLevel::kWarning, "agent", "no port for probes: {}", listener.status().message());
    }
  }
  hello.takes_deflated = true;
  hello.facts.cleanup = options_.cgroup_directory.empty() ? "subreaper" : "cgroup";
  link_->Start(*this);
  link_->Send({0, std::move(hello)});
}

void AgentSession::HoldPort() {
  // Holds the new port before it releases the old one, so that they differ.
  Result<HeldPort> port = HeldPort::Hold();
  if (!port.ok()) Log(LogLevel::kWarning, "agent", "no port held: {}", port.status().message());
  port_.reset();
  if (port.ok()) port_ = std::move(port).value();
}

void AgentSession::OnMessage(wire::Message&& message) {
  if (is_leaving_) return;
  const Generation generation = message.generation;
  std::visit(
      [this, generation](auto&& body) { On(generation, std::forward<decltype(body)>(body)); },
      std::move(message.body));
}

template <typename T>
void AgentSession::On(Generation /*generation*/, T&& /*other*/) {}

void AgentSession::On(Generation /*generation*/, wire::Hello&& hello) {
  Log(LogLevel::kDebug, "agent", "launcher is {}", hello.build);
}

void AgentSession::On(Generation /*generation*/, wire::Welcome&& welcome) {
  if (welcome_) return;  // idempotent
  welcome_ = std::move(welcome);
  link_->StartHeartbeat(milliseconds(welcome_->heartbeat_period_ms),
                        milliseconds(welcome_->heartbeat_timeout_ms));
  Relay::Options options;
  options.kv_hold = milliseconds(welcome_->kv_hold_ms);
  options.cache_bytes = static_cast<size_t>(welcome_->kv_cache_bytes);
  options.is_peer_checked = welcome_->is_peer_checked;
  options.is_mesh_kept = welcome_->is_elastic;
  options.is_barrier_held = welcome_->is_elastic;
  relay_ = std::make_unique<Relay>(loop_, options, static_cast<KvUpstream&>(*this));
  if (FindsToken(*welcome_)) link_->Send({0, wire::SharesMemory{}});
  MakeGangs();
}

void AgentSession::MakeGangs() {
  gangs_ = std::make_unique<GangSet>(
      loop_, *link_, *relay_,
      GangSet::Options{welcome_->job_id, options_.cgroup_directory, welcome_->is_elastic,
                       options_.keeps_processes, options_.node},
      static_cast<GangSet::Owner&>(*this));
  if (!welcome_->is_elastic) return;
  notifier_.emplace(loop_);
  OpenLeaveSocket();
}

void AgentSession::OpenLeaveSocket() {
  if (options_.leave_directory.empty()) return;
  Result<std::unique_ptr<LeaveSocket>> leave_socket =
      LeaveSocket::Open(loop_, options_.leave_directory, [this](Duration in) {
        Retire(in, {ErrorCode::kAgentLost, "the agent was told to leave"}, kHvdrayFailed);
      });
  if (leave_socket.ok()) {
    leave_socket_ = std::move(leave_socket).value();
  } else {
    Log(LogLevel::kInfo, "agent", "no leave socket: {}", leave_socket.status().message());
  }
}

void AgentSession::On(Generation generation, wire::Probe&& probe) {
  const bool is_measurement = !probe.token.empty();
  if (IsStale(generation) || (prober_ && !is_measurement)) {
    ++stale_requests_;
    return;
  }
  if (!welcome_) {
    Leave({ErrorCode::kProtocolError, "Probe before Welcome"}, kHvdrayFailed);
    return;
  }
  if (is_measurement) return Measure(generation, probe);
  prober_ = std::make_unique<Prober>(loop_, probe, [this, generation](wire::ProbeResult result) {
    link_->Send({generation, std::move(result)});
  });
}

void AgentSession::Measure(Generation generation, const wire::Probe& probe) {
  if (!probe_listener_ || measurer_) return CountStale(generation);
  if (!measure_server_ || !SecretsEqual(measure_server_->token(), probe.token)) {
    measure_server_ = std::make_unique<MeasureServer>(loop_, probe.token);
    probe_listener_->GiveTo([this](UniqueFd socket) { measure_server_->Take(std::move(socket)); });
  }
  if (probe.targets.empty()) {
    link_->Send({generation, wire::ProbeResult{}});
    return;
  }
  measurer_ =
      std::make_unique<Measurer>(loop_, probe, [this, generation](const wire::ProbeOutcome& done) {
        link_->Send({generation, wire::ProbeResult{{done}}});
        measurer_.reset();
      });
}

void AgentSession::On(Generation generation, wire::Inspect&& inspect) {
  if (inspector_ || (gangs_ && !gangs_->is_empty())) {
    ++stale_requests_;
    return;
  }
  if (!welcome_) {
    Leave({ErrorCode::kProtocolError, "Inspect before Welcome"}, kHvdrayFailed);
    return;
  }
  inspector_ = std::make_unique<Inspector>(
      loop_, inspect,
      [this, generation](wire::Inspection inspection) {
        inspector_.reset();
        link_->Send({generation, std::move(inspection)});
      },
      &GatherInspection);
}

void AgentSession::EndPreparation() {
  prober_.reset();
  measurer_.reset();
  probe_listener_.reset();
  measure_server_.reset();
  directory_receiver_.reset();
}

void AgentSession::On(Generation generation, wire::DirectoryList&& list) {
  if (IsStale(generation)) {
    ++stale_requests_;
    return;
  }
  if (!welcome_) {
    Leave({ErrorCode::kProtocolError, "DirectoryList before Welcome"}, kHvdrayFailed);
    return;
  }
  if (!directory_receiver_) {
    directory_receiver_ =
        std::make_unique<DirectoryReceiver>(Environment::FromProcess().GetOr("HOME", ""));
  }
  Result<wire::Body> answer = directory_receiver_->OnList(std::move(list));
  if (!answer.ok()) return Leave(answer.status(), kHvdrayFailed);
  link_->Send({generation, std::move(answer).value()});
}

void AgentSession::On(Generation generation, wire::File&& file) {
  if (IsStale(generation)) {
    ++stale_requests_;
    return;
  }
  if (!directory_receiver_) {
    Leave({ErrorCode::kProtocolError, "File before DirectoryList"}, kHvdrayFailed);
    return;
  }
  Result<std::optional<wire::Body>> answer = directory_receiver_->OnFile(file);
  if (!answer.ok()) return Leave(answer.status(), kHvdrayFailed);
  if (answer->has_value()) link_->Send({generation, std::move(**answer)});
}

void AgentSession::On(Generation generation, wire::StartGeneration&& start) {
  if (!gangs_) {
    return Leave({ErrorCode::kProtocolError, "StartGeneration before Welcome"}, kHvdrayFailed);
  }
  if (!gangs_->IsStale(generation)) EndPreparation();
  const Status status = gangs_->Start(generation, std::move(start));
  if (!status.ok()) Leave(status, kHvdrayFailed);
}

void AgentSession::On(Generation /*generation*/, wire::Warm&& order) {
  if (!gangs_) return Leave({ErrorCode::kProtocolError, "Warm before Welcome"}, kHvdrayFailed);
  const Status status = gangs_->Warm(std::move(order.start));
  if (!status.ok()) Leave(status, kHvdrayFailed);
}

void AgentSession::On(Generation generation, wire::StopGeneration&& stop) {
  if (!gangs_) {
    return Leave({ErrorCode::kProtocolError, "StopGeneration before Welcome"}, kHvdrayFailed);
  }
  if (!IsStale(generation)) EndPreparation();
  gangs_->Stop(generation, milliseconds(stop.grace_ms));
}

void AgentSession::On(Generation generation, wire::StopWorkers&& stop) {
  if (gangs_ && welcome_->is_elastic) return gangs_->StopWorkers(stop);
  CountStale(generation);
}

// Shuts the Gloo connections of that generation's workers, so that the survivors of a loss notice.
// Blocks for milliseconds, see ConnectionBreaker.
void AgentSession::On(Generation generation, wire::BreakConnections&& /*order*/) {
  if (!notifier_) return CountStale(generation);
  // Pending address lookups first: later answers would lead to connections that the breaker misses.
  relay_->EndMeshes(generation);
  const std::vector<LivingWorker> living = gangs_->LivingOf(generation);
  wire::ConnectionsBroken answer;
  if (const std::string& problem = relay_->mesh().problem(); !problem.empty()) {
    answer.refused = static_cast<uint32_t>(living.size());
    answer.why = problem;
    Log(LogLevel::kDebug, "agent", "connections of generation {} stay: {}", generation, problem);
    return link_->Send({generation, std::move(answer)});
  }
  const ConnectionBreaker::Outcome result =
      breaker_.Break(living, relay_->mesh().Addresses(), relay_->mesh().Listening());
  answer.shut = result.shut;
  answer.destroyed = result.destroyed;
  answer.refused = result.refused;
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(result.took).count();
  answer.took_us =
      static_cast<uint32_t>(std::min<int64_t>(took, std::numeric_limits<uint32_t>::max()));
  answer.why = result.why;
  answer.hint = result.hint;
  link_->Send({generation, std::move(answer)});
}

// Logs a lost notice; the launcher repeats it.
void AgentSession::On(Generation generation, wire::Notify&& notice) {
  if (!notifier_) return CountStale(generation);
  const WorkerAddresses* addresses = relay_->AddressesOf(notice.worker);
  if (addresses == nullptr) return;  // Not registered yet, or dead: the launcher repeats it.
  notifier_->Send(notice.worker, *addresses, {notice.timestamp, notice.code},
                  [worker = notice.worker](const Status& outcome) {
                    const bool is_news = outcome.ok() || outcome.code() == ErrorCode::kCancelled;
                    Log(is_news ? LogLevel::kDebug : LogLevel::kInfo, "agent",
                        "worker={}: notice {}", worker,
                        outcome.ok() ? std::string("taken") : outcome.message());
                  });
}

LocalGang* AgentSession::GangOf(Generation generation, int worker) {
  if (gangs_) return gangs_->Find(generation, worker);
  CountStale(generation);
  return nullptr;
}

void AgentSession::On(Generation generation, wire::Credit&& credit) {
  LocalGang* gang = GangOf(generation, credit.rank);
  if (gang != nullptr) gang->output().AddCredit(credit.rank, credit.stream, credit.bytes);
}

void AgentSession::On(Generation generation, wire::Stdin&& input) {
  LocalGang* gang = GangOf(generation, input.rank);
  if (gang == nullptr) return;
  const Status status = gang->inputs().Write(std::move(input));
  if (!status.ok()) Leave(status, kHvdrayFailed);
}

void AgentSession::On(Generation generation, wire::Signal&& signal) {
  if (gangs_) return gangs_->Signal(generation, signal.rank, signal.signo);
  CountStale(generation);
}

void AgentSession::On(Generation generation, wire::ObjectPiece&& piece) {
  Result<std::optional<wire::ObjectProblem>> problem = objects_.Add(piece);
  if (!problem.ok()) return Leave(problem.status(), kHvdrayFailed);
  if (problem->has_value()) link_->Send({generation, **problem});
}

void AgentSession::On(Generation generation, wire::MapObject&& map) {
  if (!welcome_ || welcome_->memory_pid == 0) {
    return Leave({ErrorCode::kProtocolError, "MapObject without memory_pid"}, kHvdrayFailed);
  }
  Result<wire::ObjectProblem> answer =
      objects_.Map(map.object, welcome_->memory_pid, map.descriptor);
  if (!answer.ok()) return Leave(answer.status(), kHvdrayFailed);
  link_->Send({generation, *answer});
}

void AgentSession::On(Generation generation, wire::GiveObject&& give) {
  LocalGang* gang = GangOf(generation, give.rank);
  if (gang == nullptr) return;
  Result<ObjectStore::View> view = objects_.Get(give.object);
  if (!view.ok()) return Leave(view.status(), kHvdrayFailed);
  if (view->fd.is_valid()) {
    gang->inputs().Give(give.rank, give.object, std::move(view).value());
  }
}

void AgentSession::On(Generation /*generation*/, wire::DropObject&& drop) {
  objects_.Drop(drop.object);
}

void AgentSession::On(Generation generation, wire::KvReply&& reply) {
  if (!relay_) return;
  KvAnswer answer;
  answer.id = reply.id;
  answer.generation = generation;
  answer.status = reply.status;
  answer.key = std::move(reply.key);
  if (reply.inflated_bytes != 0) {
    Result<std::string> inflated = Inflate(reply.value, reply.inflated_bytes);
    // Another host's agent sent garbage: an empty value makes the reader fail at once.
    if (!inflated.ok()) Log(LogLevel::kWarning, "agent", "{}", inflated.status().message());
    reply.value = std::move(inflated).value_or("");
  }
  answer.value = std::make_shared<const std::string>(std::move(reply.value));
  relay_->OnAnswer(answer);
}

void AgentSession::On(Generation generation, wire::KvReset&& /*reset*/) {
  if (relay_) relay_->Reset(generation);
}

void AgentSession::Arrived(int worker) {
  link_->Send({relay_->GenerationOf(worker), wire::WorkerArrived{worker}});
}

void AgentSession::Ask(KvQuestion question) {
  wire::KvRequest request;
  request.id = question.id;
  request.operation = question.op;
  request.rank = question.rank;
  request.scope = std::move(question.scope);
  request.key = std::move(question.key);
  if (question.value) request.value = *question.value;
  if (question.op == KvOp::kPut && welcome_->takes_deflated) DeflateValue(request);
  link_->Send({question.generation, std::move(request)});
}

void AgentSession::OnStopped(Generation generation, uint32_t swept) {
  HoldPort();
  wire::GenerationStopped stopped;
  stopped.swept = swept;
  stopped.offered_port = port_ ? port_->port() : uint16_t{0};
  if (relay_) stopped.relay = relay_->stats();
  link_->Send({generation, stopped});
}

void AgentSession::StopGangs() {
  if (gangs_) gangs_->StopAll(milliseconds(welcome_->grace_ms));
}

void AgentSession::OnClosed(Status why) {
  is_link_closed_ = true;
  if (is_leaving_) return FinishIfIdle();
  is_leaving_ = true;
  exit_code_ = why.ok() ? 0 : kHvdrayFailed;
  if (!why.ok()) {
    Log(LogLevel::kInfo, "agent", "link lost: {}", why.ToString());
    why_ = std::move(why).WithContext("link to the launcher");
  }
  EndPreparation();
  StopGangs();
  FinishIfIdle();
}

void AgentSession::Leave(const Status& why, int exit_code) {
  if (std::exchange(is_leaving_, true)) {
    if (gangs_) gangs_->StopAll(Duration::zero());
    return;
  }
  patience_.Cancel();
  exit_code_ = exit_code;
  why_ = why;
  Log(LogLevel::kInfo, "agent", "leaving: {}", why.ToString());
  directory_receiver_.reset();
  link_->Close({static_cast<uint16_t>(why.code()), why.message()}, wire::kByeLimit, [this] {
    is_link_closed_ = true;
    FinishIfIdle();
  });
  StopGangs();
  FinishIfIdle();
}

void AgentSession::Retire(Duration notice, const Status& why, int exit_code) {
  const bool is_busy = notifier_ && !gangs_->is_empty() && !is_leaving_;
  if (retire_timer_.is_active()) return Leave(why, exit_code);
  if (!is_busy) return LeaveUnlessEnding(why, exit_code);
  Log(LogLevel::kInfo, "agent", "this host is leaving: {}", why.ToString());
  const auto in_ms = std::chrono::duration_cast<milliseconds>(notice).count();
  link_->Send({0, wire::HostLeaving{static_cast<uint32_t>(in_ms)}});
  retire_timer_ = loop_.After(notice, [this, why, exit_code] { Leave(why, exit_code); });
}

void AgentSession::LeaveUnlessEnding(const Status& why, int exit_code) {
  const bool is_idle = is_leaving_ || !gangs_ || gangs_->is_empty();
  if (is_idle || patience_.is_active()) return Leave(why, exit_code);
  patience_ = loop_.Every(kStopPatience, [this, why, exit_code] {
    if (!gangs_->is_ending()) Leave(why, exit_code);
  });
}

void AgentSession::FinishIfIdle() {
  if (!is_leaving_ || !is_link_closed_ || done_timer_.is_active()) return;
  if (gangs_ && !gangs_->is_empty()) return;
  if (stale_requests() > 0) {
    Log(LogLevel::kInfo, "agent", "dropped {} stale requests", stale_requests());
  }
  done_timer_ = loop_.After(Duration::zero(),
                            [on_done = std::move(on_done_), code = exit_code_] { on_done(code); });
}

}  // namespace hvdray
