// SPDX-License-Identifier: Apache-2.0
#include "launcher/engine/worker_guard.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>

namespace hvdray {
namespace {

Status GuardViolation(const wire::Message& message, std::string_view what) {
  return {ErrorCode::kProtocolError,
          fmt::format("{}: {}", wire::Name(wire::TypeOf(message.body)), what)};
}

// The worker that a message is about; nullopt: no particular one.
std::optional<int> WorkerNamedBy(const wire::Body& body) {
  if (const auto* started = std::get_if<wire::WorkerStarted>(&body)) return started->rank;
  if (const auto* exited = std::get_if<wire::WorkerExited>(&body)) return exited->rank;
  if (const auto* output = std::get_if<wire::Output>(&body)) return output->rank;
  if (const auto* credit = std::get_if<wire::Credit>(&body)) return credit->rank;
  if (const auto* arrived = std::get_if<wire::WorkerArrived>(&body)) return arrived->worker;
  const auto* request = std::get_if<wire::KvRequest>(&body);
  if (request != nullptr && request->rank >= 0) return request->rank;
  return std::nullopt;
}

}  // namespace

void WorkerGuard::Admit(int worker, int agent, Generation generation) {
  const auto index = static_cast<size_t>(worker);
  if (rows_.size() <= index) rows_.resize(index + 1);
  Row& row = rows_[index];
  row = {agent, generation, 0, row.left_over + row.unwritten};
  SetNewest(generation);
}

const WorkerGuard::Row* WorkerGuard::Find(int worker) const {
  if (worker < 0 || static_cast<size_t>(worker) >= rows_.size()) return nullptr;
  return &rows_[static_cast<size_t>(worker)];
}

Status WorkerGuard::Check(int agent, const wire::Message& message) {
  if (message.generation > newest_) {
    return GuardViolation(message, fmt::format("generation {} has not begun", message.generation));
  }
  const std::optional<int> worker = WorkerNamedBy(message.body);
  if (!worker) return {};
  const Row* row = Find(*worker);
  if (row == nullptr || row->agent != agent) {
    return GuardViolation(message, fmt::format("worker {} is not on this host", *worker));
  }
  const auto* output = std::get_if<wire::Output>(&message.body);
  if (output == nullptr || IsStale(message)) return {};
  Row& sender = rows_[static_cast<size_t>(*worker)];
  uint64_t& held = output->stream == wire::StreamId::kChannel ? sender.unread : sender.unwritten;
  held += output->bytes.size();
  if (held > wire::kOutputWindowBytes) {
    return GuardViolation(message, fmt::format("worker {} sent more than its credit", *worker));
  }
  return {};
}

bool WorkerGuard::IsStale(const wire::Message& message) const {
  const std::optional<int> worker = WorkerNamedBy(message.body);
  return worker && message.generation < GenerationOf(*worker);
}

uint32_t WorkerGuard::OnWritten(int worker, uint32_t bytes) {
  if (Find(worker) == nullptr) return 0;
  Row& row = rows_[static_cast<size_t>(worker)];
  const auto late = static_cast<uint32_t>(std::min<uint64_t>(row.left_over, bytes));
  row.left_over -= late;
  const auto current = static_cast<uint32_t>(std::min<uint64_t>(row.unwritten, bytes - late));
  row.unwritten -= current;
  return current;
}

void WorkerGuard::OnChannelRead(int worker, uint32_t bytes) {
  if (Find(worker) == nullptr) return;
  uint64_t& unread = rows_[static_cast<size_t>(worker)].unread;
  unread -= std::min<uint64_t>(unread, bytes);
}

int WorkerGuard::AgentOf(int worker) const {
  const Row* row = Find(worker);
  return row == nullptr ? -1 : row->agent;
}

Generation WorkerGuard::GenerationOf(int worker) const {
  const Row* row = Find(worker);
  return row == nullptr ? Generation{0} : row->generation;
}

}  // namespace hvdray
