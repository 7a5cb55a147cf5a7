// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/serve_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>
#include <utility>
#include <variant>

#include "base/log.h"

namespace hvdray {
namespace {

// While workers have more than this to take, the client is not read.
constexpr size_t kMostQueuedBytes = size_t{8} << 20;

}  // namespace

void RefuseClient(int socket, const Status& why, int exit_code) {
  (void)WriteAll(socket,
                 MessageLine(RefusedMessage(nullptr, why)) + MessageLine(ByeMessage(exit_code)))
      .ok();
}

ServeSession::ServeSession(Loop& loop, ServeOptions options, JobClient::Owner& owner,
                           Workers& workers)
    : loop_(loop),
      options_(std::move(options)),
      owner_(owner),
      workers_(workers),
      requests_(owner, workers, *this, options_.grace) {}

Result<std::unique_ptr<ServeSession>> ServeSession::Open(Loop& loop, ServeOptions options,
                                                         JobClient::Owner& owner,
                                                         Workers& workers) {
  UniqueFd socket = std::move(options.socket);
  std::unique_ptr<ServeSession> session(new ServeSession(loop, std::move(options), owner, workers));
  if (socket.is_valid()) {
    HVDRAY_RETURN_IF_ERROR(session->Connect(std::move(socket)));
    return session;
  }
  HVDRAY_ASSIGN_OR_RETURN(
      session->listener_,
      ControlListener::Open(loop, session->options_.path, [self = session.get()](UniqueFd client) {
        self->OnClient(std::move(client));
      }));
  return session;
}

// ---- the client

Status ServeSession::Connect(UniqueFd socket) {
  HVDRAY_ASSIGN_OR_RETURN(link_,
                          ControlLink::Open(loop_, std::move(socket), options_.grace, *this));
  requests_.gang().ForgetNumbers();
  is_paced_ = false;
  is_greeted_ = false;
  return {};
}

void ServeSession::OnClient(UniqueFd socket) {
  if (link_ == nullptr && !requests_.gang().is_alive()) {
    // One of another user is not worth a word.
    (void)Connect(std::move(socket)).ok();
    return;
  }
  const Status why(ErrorCode::kUsage, link_ != nullptr
                                          ? "another client is connected"
                                          : "the workers of the last client are still ending");
  (void)WriteAll(socket.get(), MessageLine(RefusedMessage("hello", why))).ok();
}

void ServeSession::OnGone(const Status& why) {
  if (listener_ != nullptr && !is_greeted_ && why.ok()) {
    // It only looked whether somebody listens here.
    parting_ = loop_.After(Duration::zero(), [this] { link_.reset(); });
    return;
  }
  if (!why.ok()) Log(LogLevel::kError, "serve", "{}", why.message());
  requests_.Drop();
  ++gone_clients_;
  workers_.OnClientRoom();
  if (listener_ == nullptr || options_.linger <= Duration::zero()) {
    // Its messages still go to the client until the end.
    return owner_.OnClientsGone();
  }
  // Not from within a handler of the link.
  parting_ = loop_.After(Duration::zero(), [this] {
    link_->Close(0);  // hvdray goes on
    link_.reset();
    workers_.OnClientRoom();
  });
  linger_timer_ = loop_.After(options_.linger, [this] { owner_.OnClientsGone(); });
}

void ServeSession::Close(int exit_code) {
  parting_.Cancel();
  linger_timer_.Cancel();
  listener_.reset();
  if (link_ != nullptr) link_->Close(exit_code);
}

// Backpressure: a client that sends faster than workers read waits.
void ServeSession::PaceClient() {
  if (link_ == nullptr) return;
  const size_t queued = workers_.QueuedBytes();
  if (!is_paced_ && (queued > kMostQueuedBytes || requests_.is_waiting())) {
    is_paced_ = true;
    link_->SetReading(false);
  } else if (is_paced_ && queued < kMostQueuedBytes / 2 && !requests_.is_waiting()) {
    is_paced_ = false;
    link_->SetReading(true);
  }
}

void ServeSession::Refuse(std::string_view about, const Status& why) {
  if (link_ != nullptr) link_->Send(RefusedMessage(about, why));
}

void ServeSession::OnRequest(ControlRequest request) {
  if (const auto* hello = std::get_if<control::Hello>(&request)) return Greet(*hello);
  requests_.Take(std::move(request));
}

void ServeSession::Greet(const control::Hello& hello) {
  Log(LogLevel::kInfo, "serve", "client: {}", hello.client);
  linger_timer_.Cancel();
  link_->Send(HelloMessage(options_.build, options_.job_id));
  is_greeted_ = true;
  for (const Json& line : std::exchange(early_events_, {})) OnEvent(line);
}

void ServeSession::Flush() {
  owner_.OnceWritten([this, client = gone_clients_] {
    if (link_ != nullptr && client == gone_clients_) link_->Send(FlushedMessage());
  });
}

void ServeSession::OnWarmed(std::string_view host, const wire::Warmed& warmed, size_t left) {
  if (link_ == nullptr) return;
  Json message = ControlMessage("warmed");
  message["host"] = std::string(host);
  message["is_warm"] = warmed.is_warm;
  message["why"] = warmed.why;
  message["took_s"] = warmed.took_ms / 1e3;
  message["left"] = left;
  link_->Send(message);
}

void ServeSession::OnObjectProblem(int64_t object, std::string_view host, int error) {
  requests_.OnObjectProblem(object, host, error);
}

// ---- its gang

void ServeSession::OnMembers(const std::vector<RankInfo>& ranks, const std::vector<int>& workers) {
  requests_.gang().SetMembers(ranks, workers);
  TellReady();
}

void ServeSession::OnWorkerStarted(int worker, uint32_t pid) {
  requests_.gang().SetPid(worker, pid);
  TellReady();
}

void ServeSession::OnHello(int worker, const Json& hello) {
  requests_.gang().Greet(worker, hello);
  TellReady();
}

void ServeSession::TellReady() {
  const std::optional<Json> ready = requests_.gang().TakeReady();
  if (ready && link_ != nullptr) link_->Send(*ready);
}

void ServeSession::OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) {
  if (link_ == nullptr) return;
  Json message = requests_.gang().About("data", worker);
  if (of > 0) {
    message["at"] = at;
    message["of"] = of;
  }
  if (at == 0) message["data"] = data;
  link_->SendData(std::move(message), piece);
}

void ServeSession::OnReport(int worker, uint32_t number, const Json& metrics) {
  if (link_ == nullptr) return;
  Json report = requests_.gang().About("report", worker);
  report["n"] = number;
  report["metrics"] = metrics;
  link_->Send(report);
}

void ServeSession::OnTaken() {
  requests_.OnRoom();
  if (is_paced_) PaceClient();
}

void ServeSession::OnStopped(const JobReport& report) {
  const int64_t gang = requests_.gang().End();
  OnNoWorkers();
  if (link_ == nullptr) return OnTaken();
  Json all = ToJson(report);
  Json stopped = ControlMessage("stopped");
  stopped["gang"] = gang;
  for (const char* key :
       {"exit", "first_failure", "earlier_failures", "restarts", "swept", "workers"}) {
    stopped[key] = std::move(all[key]);
  }
  for (const char* key : {"stood_still_s", "memberships"}) {
    if (all.contains(key)) stopped[key] = std::move(all[key]);
  }
  link_->Send(stopped);
  OnTaken();  // maybe the start of the next one
}

std::function<void(const Json&)> ServeSession::event_sink() {
  return [this](const Json& line) { OnEvent(line); };
}

void ServeSession::OnEvent(const Json& line) {
  // What comes before a client's hello is of the hosts, so there is little of it.
  if (!is_greeted_) return early_events_.push_back(line);
  if (link_ == nullptr) return;
  Json message = ControlMessage("event");
  message.update(line);
  link_->Send(message);
}

}  // namespace hvdray
