// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/serve_session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/log.h"
#include "base/sealed_memory.h"

namespace hvdray {
namespace {

// While workers have more than this to take, the client is not read.
constexpr size_t kMostQueuedBytes = size_t{8} << 20;

Json Message(std::string_view type) {
  Json json;
  json["type"] = type;
  return json;
}

/// A message `data` of the channel.
std::shared_ptr<const std::string> DataMessage(const Json& data, ByteView blob) {
  Json head = Message("data");
  head["data"] = data;
  if (!blob.empty()) head["blob"] = blob.size();
  std::string bytes = MessageLine(head);
  bytes += blob;
  return std::make_shared<const std::string>(std::move(bytes));
}

}  // namespace

void RefuseClient(int socket, const Status& why, int exit_code) {
  (void)WriteAll(socket,
                 MessageLine(RefusedMessage(nullptr, why)) + MessageLine(ByeMessage(exit_code)))
      .ok();
}

ServeSession::ServeSession(Loop& loop, ServeOptions options, Owner& owner)
    : loop_(loop), options_(std::move(options)), owner_(owner) {}

ServeSession::~ServeSession() = default;

Result<std::unique_ptr<ServeSession>> ServeSession::Open(Loop& loop, ServeOptions options,
                                                         Owner& owner) {
  UniqueFd socket = std::move(options.socket);
  std::unique_ptr<ServeSession> session(new ServeSession(loop, std::move(options), owner));
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
  ControlLink::Handlers handlers;
  handlers.on_request = [this](ControlRequest request) { Take(std::move(request)); };
  handlers.on_piece = [this](ByteView piece, uint64_t left) { OnPiece(piece, left); };
  handlers.on_gone = [this](const Status& why) { OnGone(why); };
  handlers.on_room = [this] { owner_.OnClientRoom(); };
  HVDRAY_ASSIGN_OR_RETURN(
      link_, ControlLink::Open(loop_, std::move(socket), options_.grace, std::move(handlers)));
  last_gang_ = last_object_ = 0;
  is_paced_ = false;
  is_greeted_ = false;
  return {};
}

void ServeSession::OnClient(UniqueFd socket) {
  if (link_ == nullptr && start_.gang == 0) {
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
  if (start_.gang != 0) owner_.StopGang(options_.grace, false);
  DropObjects();
  ++gone_clients_;
  owner_.OnClientRoom();
  if (listener_ == nullptr || options_.linger <= Duration::zero()) {
    // Its messages still go to the client until the end.
    return owner_.OnClientsGone();
  }
  // Not from within a handler of the link.
  parting_ = loop_.After(Duration::zero(), [this] {
    link_->Close(0);  // hvdray goes on
    link_.reset();
    owner_.OnClientRoom();
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
  const size_t queued = owner_.QueuedBytes();
  if (!is_paced_ && (queued > kMostQueuedBytes || !parts_.empty())) {
    is_paced_ = true;
    link_->SetReading(false);
  } else if (is_paced_ && queued < kMostQueuedBytes / 2 && parts_.empty()) {
    is_paced_ = false;
    link_->SetReading(true);
  }
}

void ServeSession::Refuse(std::string_view about, const Status& why) {
  if (link_ != nullptr) link_->Send(RefusedMessage(about, why));
}

// ---- its requests

// What names an object must not overtake its bytes, nor one request another; but a stop may.
void ServeSession::Take(ControlRequest request) {
  const auto* stop = std::get_if<control::Stop>(&request);
  const bool is_ahead = std::holds_alternative<control::Put>(request) ||
                        (stop != nullptr && stop->gang == start_.gang);
  if (!is_ahead && !(parts_.empty() && waiting_.empty())) {
    waiting_.push_back(std::move(request));
    return;
  }
  std::visit([this](auto&& one) { On(std::forward<decltype(one)>(one)); }, std::move(request));
}

void ServeSession::On(const control::Hello& hello) {
  Log(LogLevel::kInfo, "serve", "client: {}", hello.client);
  linger_timer_.Cancel();
  link_->Send(HelloMessage(options_.build, options_.job_id));
  is_greeted_ = true;
  for (const Json& line : std::exchange(early_events_, {})) OnEvent(line);
}

void ServeSession::On(control::Start&& start) {
  if (start_.gang != 0) {
    return Refuse("start",
                  {ErrorCode::kUsage, fmt::format("gang {} is still running", start_.gang)});
  }
  if (start.gang <= last_gang_) {
    return Refuse(
        "start", {ErrorCode::kUsage,
                  fmt::format("gang numbers must increase ({} after {})", start.gang, last_gang_)});
  }
  if (const Status status = CheckObjects(start.objects); !status.ok()) {
    return Refuse("start", status);
  }
  last_gang_ = start.gang;
  start_ = std::move(start);
  start_data_ = start_.has_data ? DataMessage(start_.data, start_.blob) : nullptr;
  if (const Status status = owner_.StartGang(start_); !status.ok()) OnRefused(status);
}

void ServeSession::OnRefused(const Status& why) {
  start_ = {};
  Refuse("start", why);
}

Status ServeSession::CheckGang(int64_t gang) const {
  if (start_.gang == gang && !members_.empty()) return {};
  return {ErrorCode::kUsage, fmt::format("gang {} does not run", gang)};
}

Result<std::vector<int>> ServeSession::WorkersOf(int64_t gang, const control::Ranks& to) const {
  HVDRAY_RETURN_IF_ERROR(CheckGang(gang));
  if (to.empty()) return members_;
  std::vector<int> workers;
  for (const int rank : to) {
    if (static_cast<size_t>(rank) >= members_.size()) {
      return Status(ErrorCode::kUsage, fmt::format("gang {} has no rank {}", gang, rank));
    }
    workers.push_back(members_[static_cast<size_t>(rank)]);
  }
  return workers;
}

void ServeSession::On(const control::Send& send) {
  const Result<std::vector<int>> workers = WorkersOf(send.gang, send.to);
  if (!workers.ok()) return Refuse("send", workers.status());
  if (const Status status = CheckObjects(send.objects); !status.ok()) {
    return Refuse("send", status);
  }
  const auto message = DataMessage(send.data, send.blob);
  for (const int worker : *workers) {
    Give(worker, send.objects);
    owner_.WriteTo(worker, message);
  }
  PaceClient();
}

void ServeSession::On(const control::Signal& signal) {
  const Result<std::vector<int>> workers = WorkersOf(signal.gang, signal.to);
  if (!workers.ok()) return Refuse("signal", workers.status());
  for (const int worker : *workers) owner_.SignalWorker(worker, signal.signo);
}

void ServeSession::On(const control::Stop& stop) {
  // It may have ended meanwhile: the client has not read that yet.
  if (stop.gang == start_.gang) return owner_.StopGang(stop.grace, stop.is_sigint_first);
  if (stop.gang > last_gang_) {
    Refuse("stop", {ErrorCode::kUsage, fmt::format("gang {} was not started", stop.gang)});
  }
}

// ---- objects

void ServeSession::On(const control::Put& put) {
  Result<uint64_t> size = put.size;
  if (put.memory != nullptr) size = SealedSize(put.memory->get());
  Status status = size.status();
  if (put.object <= last_object_) {
    status = {ErrorCode::kUsage,
              fmt::format("object numbers must increase ({} after {})", put.object, last_object_)};
  }
  is_put_refused_ = !status.ok();
  if (is_put_refused_) return Refuse("put", status);
  object_size_ = *size;
  last_object_ = put.object;
  objects_.insert(put.object);
  if (object_size_ == 0) return OnPiece({}, 0);
  if (put.memory == nullptr) return;  // Its pieces follow.
  parts_.push_back({.piece = {.object = put.object, .size = object_size_, .offset = 0, .bytes = {}},
                    .memory = put.memory});
  PutParts();
  PaceClient();
}

void ServeSession::OnPiece(ByteView piece, uint64_t left) {
  if (is_put_refused_) return;
  uint64_t offset = object_size_ - left - piece.size();
  do {
    const ByteView part = piece.substr(0, wire::kMaxObjectPiece);
    parts_.push_back({.piece = {.object = last_object_,
                                .size = object_size_,
                                .offset = offset,
                                .bytes = std::string(part)},
                      .memory = nullptr});
    offset += part.size();
    piece.remove_prefix(part.size());
  } while (!piece.empty());
  PutParts();
  PaceClient();
}

// True: nothing of it is left.
bool ServeSession::PutNext(Part& part) {
  wire::ObjectPiece& piece = part.piece;
  if (part.memory == nullptr) {
    owner_.PutObject(piece);
    return true;
  }
  if (piece.offset == 0 && owner_.MapObject(piece.object, part.memory)) return true;
  Result<std::string> bytes = ReadMemory(part.memory->get(), piece.offset, wire::kMaxObjectPiece);
  if (!bytes.ok()) {
    failed_objects_.insert(piece.object);
    Refuse("put", bytes.status());
    return true;
  }
  const size_t count = bytes->size();
  piece.bytes = std::move(bytes).value();
  owner_.PutObject(piece);
  piece.offset += count;
  return piece.offset == piece.size;
}

void ServeSession::PutParts() {
  while (!parts_.empty() && owner_.HasObjectRoom()) {
    if (PutNext(parts_.front())) parts_.pop_front();
  }
  while (parts_.empty() && !waiting_.empty()) {
    ControlRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    std::visit([this](auto&& one) { On(std::forward<decltype(one)>(one)); }, std::move(request));
  }
}

void ServeSession::On(const control::Drop& drop) {
  if (std::find(start_.objects.begin(), start_.objects.end(), drop.object) !=
      start_.objects.end()) {
    return Refuse("drop", {ErrorCode::kUsage, fmt::format("object {} is part of the start of gang "
                                                          "{}, which is still running",
                                                          drop.object, start_.gang)});
  }
  failed_objects_.erase(drop.object);
  if (objects_.erase(drop.object) > 0) owner_.DropObject(drop.object);
}

void ServeSession::On(const control::Hosts& hosts) {
  if (const Status status = owner_.TakeHosts(hosts); !status.ok()) Refuse("hosts", status);
}

void ServeSession::On(const control::Notify& notify) {
  const Result<std::vector<int>> workers = WorkersOf(notify.gang, notify.to);
  if (!workers.ok()) return Refuse("notify", workers.status());
  Status first;
  for (const int worker : *workers) {
    Status status = owner_.NotifyWorker(worker, notify.timestamp);
    if (first.ok()) first = std::move(status);
  }
  if (!first.ok()) Refuse("notify", first);
}

void ServeSession::On(const control::Warm& warm) {
  if (const Status status = owner_.WarmHosts(warm); !status.ok()) Refuse("warm", status);
}

void ServeSession::On(const control::Flush& /*flush*/) {
  owner_.OnceWritten([this, client = gone_clients_] {
    if (link_ != nullptr && client == gone_clients_) link_->Send(FlushedMessage());
  });
}

void ServeSession::OnWarmed(std::string_view host, const wire::Warmed& warmed, size_t left) {
  if (link_ == nullptr) return;
  Json message = Message("warmed");
  message["host"] = std::string(host);
  message["is_warm"] = warmed.is_warm;
  message["why"] = warmed.why;
  message["took_s"] = warmed.took_ms / 1e3;
  message["left"] = left;
  link_->Send(message);
}

void ServeSession::DropObjects() {
  parts_.clear();
  waiting_.clear();
  failed_objects_.clear();
  for (const int64_t object : std::exchange(objects_, {})) owner_.DropObject(object);
}

Status ServeSession::CheckObjects(const std::vector<int64_t>& objects) const {
  for (const int64_t object : objects) {
    if (failed_objects_.contains(object)) {
      return {ErrorCode::kOutOfResources, fmt::format("a host can't hold object {}", object)};
    }
    if (!objects_.contains(object)) {
      return {ErrorCode::kUsage, fmt::format("there is no object {}", object)};
    }
  }
  return {};
}

void ServeSession::Give(int worker, const std::vector<int64_t>& objects) {
  for (const int64_t object : objects) owner_.GiveTo(worker, object);
}

void ServeSession::OnObjectProblem(int64_t object, std::string_view host, int error) {
  if (!objects_.contains(object) || !failed_objects_.insert(object).second) return;
  Refuse("put", {ErrorCode::kOutOfResources,
                 fmt::format("host {} can't hold object {}: {}", host, object, ::strerror(error))});
  // Its workers may wait for it.
  if (start_.gang != 0) owner_.StopGang(options_.grace, false);
}

// ---- its gang

void ServeSession::OnNoWorkers() {
  workers_.clear();
  members_.clear();
  is_ready_owed_ = false;
}

void ServeSession::OnWorker(int worker, const RankInfo& place) {
  workers_[worker] = {.place = place};
  Give(worker, start_.objects);
  if (start_data_ != nullptr) owner_.WriteTo(worker, start_data_);
}

void ServeSession::OnMembers(const std::vector<RankInfo>& ranks, const std::vector<int>& workers) {
  members_ = workers;
  is_ready_owed_ = true;
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    const auto known = workers_.find(workers[rank]);
    if (known != workers_.end()) known->second.place = ranks[rank];
  }
  TellReady();
}

void ServeSession::OnMember(int worker) {
  int& member = members_[static_cast<size_t>(workers_.at(worker).place.rank)];
  is_ready_owed_ = is_ready_owed_ || member != worker;
  member = worker;
}

void ServeSession::OnWorkerStarted(int worker, uint32_t pid) {
  const auto known = workers_.find(worker);
  if (known == workers_.end()) return;
  known->second.pid = pid;
  TellReady();
}

void ServeSession::OnHello(int worker, const Json& hello) {
  const auto known = workers_.find(worker);
  if (known == workers_.end()) return;
  known->second.is_greeted = true;
  known->second.python = hello.value("python", Json());
  TellReady();
}

void ServeSession::TellReady() {
  if (!is_ready_owed_) return;
  Json ready = Message("ready");
  ready["gang"] = start_.gang;
  ready["workers"] = Json::array();
  for (const int member : members_) {
    const auto known = workers_.find(member);
    if (known == workers_.end()) return;
    const Worker& worker = known->second;
    if (!worker.is_greeted || worker.pid == 0) return;
    Json row;
    row["rank"] = worker.place.rank;
    row["host"] = worker.place.host;
    row["local_rank"] = worker.place.local_rank;
    row["worker"] = member;
    row["pid"] = worker.pid;
    row["python"] = worker.python;
    ready["workers"].push_back(std::move(row));
  }
  is_ready_owed_ = false;
  if (link_ != nullptr) link_->Send(ready);
}

Json ServeSession::AboutWorker(std::string_view type, int worker) const {
  const auto known = workers_.find(worker);
  Json message = Message(type);
  message["gang"] = start_.gang;
  message["worker"] = worker;
  message["rank"] = known == workers_.end() ? worker : known->second.place.rank;
  return message;
}

void ServeSession::OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) {
  if (link_ == nullptr) return;
  Json message = AboutWorker("data", worker);
  if (of > 0) {
    message["at"] = at;
    message["of"] = of;
  }
  if (at == 0) message["data"] = data;
  link_->SendData(std::move(message), piece);
}

void ServeSession::OnReport(int worker, uint32_t number, const Json& metrics) {
  if (link_ == nullptr) return;
  Json report = AboutWorker("report", worker);
  report["n"] = number;
  report["metrics"] = metrics;
  link_->Send(report);
}

void ServeSession::OnTaken() {
  PutParts();
  if (is_paced_) PaceClient();
}

void ServeSession::OnStopped(const JobReport& report) {
  const int64_t gang = std::exchange(start_, {}).gang;
  OnNoWorkers();
  if (link_ == nullptr) return OnTaken();
  Json all = ToJson(report);
  Json stopped = Message("stopped");
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
  Json message = Message("event");
  message.update(line);
  link_->Send(message);
}

}  // namespace hvdray
