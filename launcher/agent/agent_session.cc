#include "launcher/agent/agent_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/environ.h"
#include "base/log.h"
#include "launcher/agent/host_inspection.h"

namespace hvdray {
namespace {

using std::chrono::milliseconds;

constexpr Duration kByeLimit = milliseconds(500);
constexpr int kLinkFailed = 125;
// Pipes, pidfd, listener, and a few connections to the relay.
constexpr uint64_t kFilesPerWorker = 12;
constexpr uint64_t kFilesBesides = 512;

wire::KvOperation ToWire(KvOp op) {
  switch (op) {
    case KvOp::kPut:
      return wire::KvOperation::kPut;
    case KvOp::kGet:
      return wire::KvOperation::kGet;
    case KvOp::kDelete:
      return wire::KvOperation::kDelete;
    case KvOp::kFollow:
      return wire::KvOperation::kFollow;
    case KvOp::kUnfollow:
      return wire::KvOperation::kUnfollow;
    case KvOp::kRankAndSize:
      return wire::KvOperation::kRankAndSize;
    case KvOp::kWorkerAddresses:
      return wire::KvOperation::kWorkerAddresses;
  }
  return wire::KvOperation::kGet;
}

Status CheckStart(const wire::StartGeneration& start) {
  if (start.command.empty()) return {ErrorCode::kProtocolError, "StartGeneration without command"};
  std::set<int32_t> ranks;
  for (const wire::WorkerSlot& slot : start.workers) {
    if (slot.rank < 0 || !ranks.insert(slot.rank).second) {
      return {ErrorCode::kProtocolError,
              fmt::format("StartGeneration with rank {} twice or below 0", slot.rank)};
    }
  }
  return {};
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
    } else {
      Log(LogLevel::kWarning, "agent", "no port to be probed at: {}", listener.status().message());
    }
  }
  hello.facts.cleanup = options_.cgroup_folder.empty() ? "subreaper" : "cgroup";
  link_->Start({.on_message = [this](wire::Message&& message) { OnMessage(std::move(message)); },
                .on_closed = [this](const Status& why) { OnLinkClosed(why); },
                .on_output_room =
                    [this] {
                      if (gang_) gang_->OnOutputRoom();
                    },
                .on_noise = {}});
  link_->Send({0, std::move(hello)});
}

void AgentSession::HoldPort() {
  // The new one is held before the old one is let go, so that they differ.
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
  RelayOptions options;
  options.host = welcome_->host;
  options.kv_hold = milliseconds(welcome_->kv_hold_ms);
  options.cache_bytes = static_cast<size_t>(welcome_->kv_cache_bytes);
  options.is_peer_checked = welcome_->is_peer_checked;
  relay_ = MakeRelay(loop_, std::move(options), *this);
}

void AgentSession::On(Generation generation, wire::Probe&& probe) {
  if (generation <= last_generation_ || prober_) {
    ++stale_requests_;
    return;
  }
  if (!welcome_) {
    Leave({ErrorCode::kProtocolError, "Probe before Welcome"}, kLinkFailed);
    return;
  }
  prober_ = std::make_unique<Prober>(loop_, probe, [this, generation](wire::ProbeResult result) {
    Send(generation, std::move(result));
  });
}

void AgentSession::On(Generation generation, wire::Inspect&& inspect) {
  if (inspector_ || gang_) {
    ++stale_requests_;
    return;
  }
  if (!welcome_) {
    Leave({ErrorCode::kProtocolError, "Inspect before Welcome"}, kLinkFailed);
    return;
  }
  inspector_ = std::make_unique<Inspector>(
      loop_, inspect,
      [this, generation](wire::Inspection inspection) {
        inspector_.reset();
        Send(generation, std::move(inspection));
      },
      &GatherInspection);
}

void AgentSession::EndPreparation() {
  prober_.reset();
  probe_listener_.reset();
  folder_receiver_.reset();
}

void AgentSession::On(Generation generation, wire::FolderList&& list) {
  if (generation <= last_generation_) {
    ++stale_requests_;
    return;
  }
  if (!welcome_) {
    Leave({ErrorCode::kProtocolError, "FolderList before Welcome"}, kLinkFailed);
    return;
  }
  if (!folder_receiver_) {
    folder_receiver_ =
        std::make_unique<FolderReceiver>(Environment::FromProcess().GetOr("HOME", ""));
  }
  Result<wire::Body> answer = folder_receiver_->OnList(std::move(list));
  if (!answer.ok()) return Leave(answer.status(), kLinkFailed);
  Send(generation, std::move(answer).value());
}

void AgentSession::On(Generation generation, wire::File&& file) {
  if (generation <= last_generation_) {
    ++stale_requests_;
    return;
  }
  if (!folder_receiver_) {
    Leave({ErrorCode::kProtocolError, "File before FolderList"}, kLinkFailed);
    return;
  }
  Result<std::optional<wire::Body>> answer = folder_receiver_->OnFile(file);
  if (!answer.ok()) return Leave(answer.status(), kLinkFailed);
  if (answer->has_value()) Send(generation, std::move(**answer));
}

void AgentSession::On(Generation generation, wire::StartGeneration&& start) {
  if (generation <= last_generation_) {
    ++stale_requests_;
    return;
  }
  Status status = CheckStart(start);
  if (!welcome_) status = {ErrorCode::kProtocolError, "StartGeneration before Welcome"};
  if (gang_) {
    status = {ErrorCode::kProtocolError, fmt::format("StartGeneration {} while {} still runs",
                                                     generation, gang_->generation())};
  }
  if (!status.ok()) {
    Leave(status, kLinkFailed);
    return;
  }
  EndPreparation();
  const uint64_t files = kFilesBesides + kFilesPerWorker * start.workers.size();
  const Result<uint64_t> limit = RaiseOpenFileLimit(files);
  if (!limit.ok() || *limit < files) {
    Log(LogLevel::kWarning, "agent", "limit of open files is {}, {} would be safe",
        limit.ok() ? *limit : 0, files);
  }
  last_generation_ = generation;
  if (std::error_code ignored;
      start.is_folder_optional && !std::filesystem::is_directory(start.working_folder, ignored)) {
    // As horovodrun has it: its `cd` fails and the job goes on.
    Log(LogLevel::kWarning, "agent", "no folder {} here: workers start in {}", start.working_folder,
        std::filesystem::current_path(ignored).string());
    start.working_folder.clear();
  }
  LocalGangOptions options;
  options.job_id = welcome_->job_id;
  options.generation = generation;
  if (!options_.cgroup_folder.empty()) {
    options.cgroup_folder = fmt::format("{}/gen-{}", options_.cgroup_folder, generation);
  }
  LocalGang::Handlers handlers;
  handlers.send = [this, generation](wire::Body body) { Send(generation, std::move(body)); };
  handlers.has_output_room = [this] { return link_ != nullptr && link_->HasOutputRoom(); };
  handlers.open_relay = [this, generation](const wire::WorkerSlot& slot) {
    return relay_->OpenWorker(slot.rank, slot.local_rank, generation);
  };
  handlers.close_relay = [this](int rank) { relay_->CloseWorker(rank); };
  handlers.on_stopped = [this](uint32_t swept) { OnGangStopped(swept); };
  gang_ =
      std::make_unique<LocalGang>(loop_, std::move(start), std::move(options), std::move(handlers));
  gang_->Start();
}

LocalGang* AgentSession::GangOf(Generation generation) {
  if (gang_ && gang_->generation() == generation) return gang_.get();
  ++stale_requests_;
  return nullptr;
}

void AgentSession::On(Generation generation, wire::StopGeneration&& stop) {
  if (generation > last_generation_) {
    // It never began here: say so, and let no late StartGeneration begin it.
    last_generation_ = generation;
    EndPreparation();
    SendStopped(generation, 0);
  } else if (LocalGang* gang = GangOf(generation)) {
    gang->Stop(milliseconds(stop.grace_ms));
  }
}

void AgentSession::On(Generation generation, wire::Credit&& credit) {
  if (LocalGang* gang = GangOf(generation)) gang->AddOutputCredit(credit.rank, credit.bytes);
}

void AgentSession::On(Generation generation, wire::Stdin&& input) {
  LocalGang* gang = GangOf(generation);
  if (gang == nullptr) return;
  const Status status = gang->WriteStdin(input.rank, std::move(input.bytes), input.is_end);
  if (!status.ok()) Leave(status, kLinkFailed);
}

void AgentSession::On(Generation generation, wire::Signal&& signal) {
  if (LocalGang* gang = GangOf(generation)) gang->Signal(signal.rank, signal.signo);
}

void AgentSession::On(Generation generation, wire::KvReply&& reply) {
  if (!relay_) return;
  KvAnswer answer;
  answer.id = reply.id;
  answer.generation = generation;
  answer.status = reply.status;
  answer.key = std::move(reply.key);
  answer.value = std::make_shared<const std::string>(std::move(reply.value));
  relay_->OnAnswer(std::move(answer));
}

void AgentSession::On(Generation generation, wire::KvReset&& /*reset*/) {
  if (relay_) relay_->Reset(generation);
}

void AgentSession::Ask(KvQuestion question) {
  wire::KvRequest request;
  request.id = question.id;
  request.operation = ToWire(question.op);
  request.rank = question.rank;
  request.scope = std::move(question.scope);
  request.key = std::move(question.key);
  if (question.value) request.value = *question.value;
  Send(question.generation, std::move(request));
}

void AgentSession::Send(Generation generation, wire::Body body) {
  if (link_ && !is_leaving_) link_->Send({generation, std::move(body)});
}

void AgentSession::OnGangStopped(uint32_t swept) {
  const Generation generation = gang_->generation();
  gang_.reset();
  HoldPort();
  SendStopped(generation, swept);
  FinishIfIdle();
}

void AgentSession::SendStopped(Generation generation, uint32_t swept) {
  wire::GenerationStopped stopped;
  stopped.swept = swept;
  stopped.offered_port = port_ ? port_->port() : uint16_t{0};
  if (relay_) stopped.relay = relay_->stats();
  Send(generation, stopped);
}

void AgentSession::StopGang() {
  if (!gang_) return;
  gang_->DiscardOutput();
  gang_->Stop(milliseconds(welcome_->grace_ms));
}

void AgentSession::OnLinkClosed(const Status& why) {
  link_.reset();
  if (is_leaving_) return FinishIfIdle();
  is_leaving_ = true;
  exit_code_ = why.ok() ? 0 : kLinkFailed;
  if (!why.ok()) Log(LogLevel::kInfo, "agent", "link lost: {}", why.ToString());
  EndPreparation();
  StopGang();
  FinishIfIdle();
}

void AgentSession::Leave(const Status& why, int exit_code) {
  if (std::exchange(is_leaving_, true)) {
    if (gang_) gang_->Stop(Duration::zero());
    return;
  }
  exit_code_ = exit_code;
  Log(LogLevel::kInfo, "agent", "leaving: {}", why.ToString());
  folder_receiver_.reset();
  if (link_) {
    link_->Close({static_cast<uint16_t>(why.code()), why.message()}, kByeLimit, [this] {
      // Not from within the link's own callback.
      close_timer_ = loop_.After(Duration::zero(), [this] {
        link_.reset();
        FinishIfIdle();
      });
    });
  }
  StopGang();
  FinishIfIdle();
}

void AgentSession::FinishIfIdle() {
  if (!is_leaving_ || link_ || gang_ || done_timer_.is_active()) return;
  if (stale_requests_ > 0) {
    Log(LogLevel::kInfo, "agent", "{} stale requests were dropped", stale_requests_);
  }
  // The callee may destroy us, so the function it runs in must not be ours.
  done_timer_ = loop_.After(Duration::zero(),
                            [on_done = std::move(on_done_), code = exit_code_] { on_done(code); });
}

}  // namespace hvdray
