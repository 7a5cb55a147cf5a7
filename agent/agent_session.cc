// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_session.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>
#include <variant>

#include "agent/host_inspection.h"
#include "base/log.h"
#include "base/sealed_memory.h"
#include "base/secrets_equal.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr Duration kStopPatience = std::chrono::seconds(2);

// The launcher's memory can be mapped here. A process of the same number on another machine has no
// such token.
bool FindsToken(const wire::Welcome& welcome) {
  UniqueFd memory;
  if (welcome.memory_pid == 0 || welcome.memory_token.empty()) return false;
  if (OpenSealedMemory(welcome.memory_pid, welcome.memory_descriptor, memory) != 0) return false;
  const Result<std::string> token = ReadMemory(memory.get(), 0, welcome.memory_token.size() + 1);
  return token.ok() && SecretsEqual(welcome.memory_token, *token);
}

bool NeedsWelcome(wire::MessageType type) {
  using Type = wire::MessageType;
  return type == Type::kProbe || type == Type::kInspect || type == Type::kDirectoryList ||
         type == Type::kStartGeneration || type == Type::kWarm || type == Type::kStopGeneration;
}

}  // namespace

AgentSession::AgentSession(Loop& loop, std::unique_ptr<ByteStream> stream,
                           AgentSessionOptions options, std::function<void(int)> on_done)
    : loop_(loop),
      options_(std::move(options)),
      on_done_(std::move(on_done)),
      link_(wire::MakeLink(loop, wire::LinkRole::kAgent, std::move(stream))),
      preparation_(loop, *link_) {}

AgentSession::~AgentSession() = default;

void AgentSession::Start() {
  HoldPort();
  wire::Hello hello;
  hello.build = options_.build;
  hello.facts = options_.facts;
  hello.facts.offered_port = port_ ? port_->port() : 0;
  if (options_.has_probe_listener) {
    hello.facts.probe_port = preparation_.Listen();
    hello.facts.measures = hello.facts.probe_port != 0;
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
  const wire::MessageType type = wire::TypeOf(message.body);
  Status status;
  if (!welcome_ && NeedsWelcome(type)) {
    status = {ErrorCode::kProtocolError, fmt::format("{} before Welcome", Name(type))};
  } else {
    status =
        std::visit([this, generation](
                       auto&& body) { return On(generation, std::forward<decltype(body)>(body)); },
                   std::move(message.body));
  }
  if (!status.ok()) Leave(status, kHvdrayFailed);
}

template <typename T>
Status AgentSession::On(Generation generation, T&& message) {
  if constexpr (requires { preparation_.On(generation, std::forward<T>(message)); }) {
    return IsStale(generation) ? CountStale()
                               : preparation_.On(generation, std::forward<T>(message));
  } else if constexpr (requires { relay_->On(generation, std::forward<T>(message)); }) {
    return relay_ ? relay_->On(generation, std::forward<T>(message)) : Status();
  } else {
    return {};
  }
}

Status AgentSession::CountStale() {
  ++stale_requests_;
  return {};
}

Status AgentSession::On(Generation /*generation*/, wire::Hello&& hello) {
  Log(LogLevel::kDebug, "agent", "launcher is {}", hello.build);
  return {};
}

Status AgentSession::On(Generation /*generation*/, wire::Welcome&& welcome) {
  if (welcome_) return {};  // idempotent
  welcome_ = std::move(welcome);
  link_->StartHeartbeat(milliseconds(welcome_->heartbeat_period_ms),
                        milliseconds(welcome_->heartbeat_timeout_ms));
  relay_ = std::make_unique<HostRelay>(loop_, *link_, *welcome_);
  if (FindsToken(*welcome_)) link_->Send({0, wire::SharesMemory{}});
  gangs_ = std::make_unique<GangSet>(
      loop_, *link_, relay_->relay(),
      GangSet::Options{welcome_->job_id, options_.cgroup_directory, welcome_->is_elastic,
                       options_.keeps_processes, options_.node},
      static_cast<GangSet::Owner&>(*this));
  if (!welcome_->is_elastic) return {};
  survivors_.emplace(loop_, *link_, relay_->relay(), *gangs_);
  OpenLeaveSocket();
  return {};
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

Status AgentSession::On(Generation generation, wire::Inspect&& inspect) {
  if (inspector_ || !gangs_->is_empty()) return CountStale();
  inspector_ = std::make_unique<Inspector>(
      loop_, inspect,
      [this, generation](wire::Inspection inspection) {
        inspector_.reset();
        link_->Send({generation, std::move(inspection)});
      },
      &GatherInspection);
  return {};
}

Status AgentSession::On(Generation generation, wire::StartGeneration&& start) {
  if (!gangs_->IsStale(generation)) preparation_.End();
  return gangs_->Start(generation, std::move(start));
}

Status AgentSession::On(Generation /*generation*/, wire::Warm&& order) {
  return gangs_->Warm(std::move(order.start));
}

Status AgentSession::On(Generation generation, wire::StopGeneration&& stop) {
  if (!IsStale(generation)) preparation_.End();
  gangs_->Stop(generation, milliseconds(stop.grace_ms));
  return {};
}

Status AgentSession::On(Generation /*generation*/, wire::StopWorkers&& stop) {
  if (!survivors_) return CountStale();
  gangs_->StopWorkers(stop);
  return {};
}

Status AgentSession::On(Generation generation, wire::BreakConnections&& /*order*/) {
  if (!survivors_) return CountStale();
  survivors_->Break(generation);
  return {};
}

Status AgentSession::On(Generation /*generation*/, wire::Notify&& notice) {
  if (!survivors_) return CountStale();
  survivors_->Send(notice);
  return {};
}

LocalGang* AgentSession::GangOf(Generation generation, int worker) {
  if (gangs_) return gangs_->Find(generation, worker);
  ++stale_requests_;
  return nullptr;
}

Status AgentSession::On(Generation generation, wire::Credit&& credit) {
  LocalGang* gang = GangOf(generation, credit.rank);
  if (gang != nullptr) gang->output().AddCredit(credit.rank, credit.stream, credit.bytes);
  return {};
}

Status AgentSession::On(Generation generation, wire::Stdin&& input) {
  LocalGang* gang = GangOf(generation, input.rank);
  return gang == nullptr ? Status() : gang->inputs().Write(std::move(input));
}

Status AgentSession::On(Generation generation, wire::Signal&& signal) {
  if (!gangs_) return CountStale();
  gangs_->Signal(generation, signal.rank, signal.signo);
  return {};
}

Status AgentSession::On(Generation generation, wire::ObjectPiece&& piece) {
  HVDRAY_ASSIGN_OR_RETURN(const std::optional<wire::ObjectProblem> problem, objects_.Add(piece));
  if (problem) link_->Send({generation, *problem});
  return {};
}

Status AgentSession::On(Generation generation, wire::MapObject&& map) {
  if (!welcome_ || welcome_->memory_pid == 0) {
    return {ErrorCode::kProtocolError, "MapObject without memory_pid"};
  }
  HVDRAY_ASSIGN_OR_RETURN(const wire::ObjectProblem answer,
                          objects_.Map(map.object, welcome_->memory_pid, map.descriptor));
  link_->Send({generation, answer});
  return {};
}

Status AgentSession::On(Generation generation, wire::GiveObject&& give) {
  LocalGang* gang = GangOf(generation, give.rank);
  if (gang == nullptr) return {};
  HVDRAY_ASSIGN_OR_RETURN(ObjectStore::View view, objects_.Get(give.object));
  if (view.fd.is_valid()) gang->inputs().Give(give.rank, give.object, std::move(view));
  return {};
}

Status AgentSession::On(Generation /*generation*/, wire::DropObject&& drop) {
  objects_.Drop(drop.object);
  return {};
}

void AgentSession::OnStopped(Generation generation, uint32_t swept) {
  HoldPort();
  wire::GenerationStopped stopped;
  stopped.swept = swept;
  stopped.offered_port = port_ ? port_->port() : uint16_t{0};
  if (relay_) stopped.relay = relay_->relay().stats();
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
  preparation_.End();
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
  preparation_.End();
  link_->Close({static_cast<uint16_t>(why.code()), why.message()}, wire::kByeLimit, [this] {
    is_link_closed_ = true;
    FinishIfIdle();
  });
  StopGangs();
  FinishIfIdle();
}

void AgentSession::Retire(Duration notice, const Status& why, int exit_code) {
  const bool is_busy = survivors_ && !gangs_->is_empty() && !is_leaving_;
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
