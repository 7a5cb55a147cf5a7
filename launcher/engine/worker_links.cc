// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_links.h"

#include <signal.h>
#include <unistd.h>

#include <utility>
#include <variant>

namespace hvdray {

Result<bool> WorkerLinks::OnMessage(int agent, wire::Message& message) {
  HVDRAY_RETURN_IF_ERROR(guard_.Check(agent, message));
  if (auto* output = std::get_if<wire::Output>(&message.body)) {
    if (guard_.IsStale(message)) return true;
    if (output->stream == wire::StreamId::kChannel) {
      channels_.Take(*output);
    } else {
      owner_.OnOutput(*output);
    }
    return true;
  }
  if (const auto* credit = std::get_if<wire::Credit>(&message.body)) {
    if (guard_.IsStale(message)) return true;
    if (stdin_ && credit->stream == wire::StreamId::kStdin) stdin_->AddCredit(credit->bytes);
    if (credit->stream == wire::StreamId::kChannel) {
      channels_.AddCredit(credit->rank, credit->bytes);
      owner_.client().OnTaken();
    }
    return true;
  }
  return false;
}

void WorkerLinks::OnWritten(int worker, uint32_t bytes) {
  const uint32_t granted = guard_.OnWritten(worker, bytes);
  if (granted != 0) Send(worker, wire::Credit{worker, wire::StreamId::kStdout, granted});
}

void WorkerLinks::TellEnd(int worker, Duration grace) {
  if (grace > Duration::zero() && has_channels_) Write(worker, EndMessage(grace));
}

void WorkerLinks::OnExited(int worker) {
  if (stdin_ && stdin_worker_ == worker) stdin_->Stop();
  channels_.Drop(worker);
}

void WorkerLinks::Send(int worker, wire::Body body) {
  const int agent = guard_.AgentOf(worker);
  if (agent >= 0) agents_.Send(agent, {guard_.GenerationOf(worker), std::move(body)});
}

void WorkerLinks::Write(int worker, std::shared_ptr<const std::string> bytes) {
  channels_.Write(worker, std::move(bytes));
}

void WorkerLinks::StartStdin(int worker) {
  stdin_worker_ = worker;
  stdin_ = std::make_unique<StdinFeeder>(
      loop_, STDIN_FILENO, worker, [this, worker](auto frame) { Send(worker, std::move(frame)); });
  stdin_->AddCredit(wire::kStdinWindowBytes);
}

// ---- what the channels tell

void WorkerLinks::OnHello(int worker, const Json& hello) { owner_.client().OnHello(worker, hello); }

void WorkerLinks::OnData(int worker, const Json& data, ByteView piece, uint64_t at, uint64_t of) {
  owner_.client().OnData(worker, data, piece, at, of);
}

void WorkerLinks::OnReport(int worker, uint32_t number, const Json& metrics) {
  owner_.client().OnReport(worker, number, metrics);
  owner_.OnReport(worker, number, metrics);
}

void WorkerLinks::OnViolation(int worker, const Status& why) {
  owner_.OnViolation(worker, why);
  Signal(worker, SIGKILL);
}

void WorkerLinks::SendObject(int worker, int64_t object) {
  Send(worker, wire::GiveObject{worker, object});
}

void WorkerLinks::GrantRead(int worker, uint32_t bytes) {
  guard_.OnChannelRead(worker, bytes);
  Send(worker, wire::Credit{worker, wire::StreamId::kChannel, bytes});
}

}  // namespace hvdray
