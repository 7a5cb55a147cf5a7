// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/client_requests.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

namespace hvdray {

// What names an object must not overtake its bytes, nor one request another; but a stop may.
void ClientRequests::Take(ControlRequest request) {
  const auto* stop = std::get_if<control::Stop>(&request);
  const bool is_ahead = std::holds_alternative<control::Put>(request) ||
                        (stop != nullptr && stop->gang == gang_.number());
  if (is_ahead || (!is_waiting() && waiting_.empty())) return CarryOut(std::move(request));
  waiting_.push_back(std::move(request));
}

void ClientRequests::CarryOut(ControlRequest request) {
  std::visit([this](auto&& one) { On(std::forward<decltype(one)>(one)); }, std::move(request));
}

void ClientRequests::OnRoom() {
  while (objects_.CanSend()) {
    if (const Status status = objects_.SendNext(); !status.ok()) session_.Refuse("put", status);
  }
  while (!is_waiting() && !waiting_.empty()) {
    ControlRequest request = std::move(waiting_.front());
    waiting_.pop_front();
    CarryOut(std::move(request));
  }
}

void ClientRequests::Drop() {
  if (gang_.is_alive()) owner_.StopGang(grace_, false);
  waiting_.clear();
  for (const int64_t object : objects_.Clear()) workers_.DropObject(object);
}

// ---- its gang

void ClientRequests::On(control::Start&& start) {
  Status status = gang_.CheckStart(start);
  if (status.ok()) status = objects_.Check(start.objects);
  if (!status.ok()) return session_.Refuse("start", status);
  gang_.Begin(std::move(start));
  status = owner_.StartGang(gang_.start());
  if (!status.ok()) RefuseStart(status);
}

void ClientRequests::RefuseStart(const Status& why) {
  gang_.End();
  session_.Refuse("start", why);
}

void ClientRequests::AddWorker(int worker, const RankInfo& place) {
  gang_.AddWorker(worker, place);
  Give(worker, gang_.start().objects);
  if (gang_.start_data() != nullptr) workers_.Write(worker, gang_.start_data());
}

void ClientRequests::Give(int worker, const std::vector<int64_t>& objects) {
  for (const int64_t object : objects) workers_.Give(worker, object);
}

void ClientRequests::On(const control::Send& send) {
  const Result<std::vector<int>> workers = gang_.Find(send.gang, send.to);
  if (!workers.ok()) return session_.Refuse("send", workers.status());
  if (const Status status = objects_.Check(send.objects); !status.ok()) {
    return session_.Refuse("send", status);
  }
  const auto message = DataMessage(send.data, send.blob);
  for (const int worker : *workers) {
    Give(worker, send.objects);
    workers_.Write(worker, message);
  }
  session_.PaceClient();
}

void ClientRequests::On(const control::Signal& signal) {
  const Result<std::vector<int>> workers = gang_.Find(signal.gang, signal.to);
  if (!workers.ok()) return session_.Refuse("signal", workers.status());
  for (const int worker : *workers) workers_.Signal(worker, signal.signo);
}

void ClientRequests::On(const control::Stop& stop) {
  // It may have ended meanwhile: the client has not read that yet.
  if (stop.gang == gang_.number()) return owner_.StopGang(stop.grace, stop.is_sigint_first);
  if (stop.gang > gang_.last_number()) {
    session_.Refuse("stop", {ErrorCode::kUsage, fmt::format("gang {} was not started", stop.gang)});
  }
}

void ClientRequests::On(const control::Notify& notify) {
  const Result<std::vector<int>> workers = gang_.Find(notify.gang, notify.to);
  if (!workers.ok()) return session_.Refuse("notify", workers.status());
  Status first;
  for (const int worker : *workers) {
    Status status = owner_.NotifyWorker(worker, notify.timestamp);
    if (first.ok()) first = std::move(status);
  }
  if (!first.ok()) session_.Refuse("notify", first);
}

// ---- its objects

void ClientRequests::On(const control::Put& put) {
  if (const Status status = objects_.Put(put); !status.ok()) {
    return session_.Refuse("put", status);
  }
  OnRoom();
  session_.PaceClient();
}

void ClientRequests::OnPiece(ByteView piece, uint64_t left) {
  objects_.AddPiece(piece, left);
  OnRoom();
  session_.PaceClient();
}

void ClientRequests::On(const control::Drop& drop) {
  const std::vector<int64_t>& used = gang_.start().objects;
  if (std::find(used.begin(), used.end(), drop.object) != used.end()) {
    return session_.Refuse(
        "drop", {ErrorCode::kUsage, fmt::format("object {} is part of the start of gang {}, which "
                                                "is still running",
                                                drop.object, gang_.number())});
  }
  if (objects_.Drop(drop.object)) workers_.DropObject(drop.object);
}

void ClientRequests::OnObjectProblem(int64_t object, std::string_view host, int error) {
  if (!objects_.Fail(object)) return;
  session_.Refuse(
      "put", {ErrorCode::kOutOfResources,
              fmt::format("host {} can't hold object {}: {}", host, object, ::strerror(error))});
  // Its workers may wait for it.
  if (gang_.is_alive()) owner_.StopGang(grace_, false);
}

// ---- its hosts

void ClientRequests::On(const control::Hosts& hosts) {
  if (const Status status = owner_.TakeHosts(hosts); !status.ok()) {
    session_.Refuse("hosts", status);
  }
}

void ClientRequests::On(const control::Warm& warm) {
  if (const Status status = owner_.WarmHosts(warm); !status.ok()) session_.Refuse("warm", status);
}

}  // namespace hvdray
