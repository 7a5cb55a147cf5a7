// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/recorded_client.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/error_code.h"

namespace hvdray {
namespace {

constexpr size_t kPieceBytes = size_t{256} << 10;
constexpr uint64_t kCreditStep = uint64_t{1} << 20;
constexpr Duration kByePatience = std::chrono::seconds(5);

Json Message(std::string_view type) {
  Json json;
  json["type"] = type;
  return json;
}

}  // namespace

RecordedClient::RecordedClient(Loop& loop, UniqueFd recording, UniqueFd socket, Handlers handlers)
    : loop_(loop),
      recording_(std::move(recording)),
      handlers_(std::move(handlers)),
      reader_({[this](std::string_view type, const Json& head, uint64_t blob) {
                 return OnMessage(type, head, blob);
               },
               [this](ByteView piece, uint64_t left) { return OnBlob(piece, left); }}),
      exit_code_(kHvdrayFailed) {
  UniqueFd writer(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
  stream_ = MakeFdStream(loop, std::move(socket), std::move(writer));
}

void RecordedClient::Start() {
  stream_->Start(*this);
  SayMore();
}

void RecordedClient::OnData(ByteView bytes) {
  if (has_failed_) return;
  if (const Status status = reader_.Feed(bytes); !status.ok()) Fail(status);
}

void RecordedClient::SayMore() {
  while (!is_said_ && !has_failed_ && stream_->QueuedBytes() == 0) {
    std::string piece(kPieceBytes, '\0');
    const ssize_t n = ::read(recording_.get(), piece.data(), piece.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Fail(ErrnoStatus("read the client's requests", errno));
    piece.resize(static_cast<size_t>(n));
    is_said_ = piece.empty();
    stream_->Write(is_said_ ? std::exchange(own_, {}) : std::move(piece));
  }
}

// Never in the middle of the recording.
void RecordedClient::Say(const Json& head) {
  if (is_said_) return stream_->Write(MessageLine(head));
  own_ += MessageLine(head);
}

Status RecordedClient::OnMessage(std::string_view type, const Json& head, uint64_t blob) {
  if (type == "hello") return {};
  if (type == "bye") {
    End();
    return {};
  }
  type_ = type;
  message_ = MessageLine(head);
  if (type == "stopped") {
    const auto exit = head.find("exit");
    if (exit != head.end() && exit->is_object()) exit_code_ = exit->value("code", kHvdrayFailed);
  }
  const bool is_refused = type == "refused" && head.value("about", Json()) != "put";
  Status status = blob == 0 ? OnWhole() : Status();
  if (type == "stopped" || is_refused) Say(Message("bye"));
  return status;
}

Status RecordedClient::OnBlob(ByteView piece, uint64_t left) {
  message_ += piece;
  return left == 0 ? OnWhole() : Status();
}

Status RecordedClient::OnWhole() {
  if (type_ == "data") owed_ += message_.size();
  if (owed_ >= kCreditStep) {
    Json credit = Message("credit");
    credit["bytes"] = std::exchange(owed_, 0);
    Say(credit);
  }
  return handlers_.on_message(std::exchange(message_, {}));
}

void RecordedClient::Fail(const Status& why) {
  if (std::exchange(has_failed_, true)) return;
  handlers_.on_failed(why);
  End();
}

void RecordedClient::End() {
  is_over_ = true;
  if (is_awaited_) loop_.Stop();
}

void RecordedClient::AwaitBye() {
  if (is_over_) return;
  is_awaited_ = true;
  const Watch limit = loop_.After(kByePatience, [this] { loop_.Stop(); });
  loop_.Run();
  is_awaited_ = false;
}

}  // namespace hvdray
