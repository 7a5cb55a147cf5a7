#include "launcher/engine/worker_guard.h"

#include <fmt/format.h>

#include <optional>

#include "launcher/engine/rank_guard.h"

namespace hvdray {
void WorkerGuard::Admit(int worker, int agent, Generation generation) {
  const auto index = static_cast<size_t>(worker);
  if (rows_.size() <= index) rows_.resize(index + 1);
  rows_[index] = {agent, generation, 0};
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
  if (const auto* output = std::get_if<wire::Output>(&message.body)) {
    uint64_t& unwritten = rows_[static_cast<size_t>(*worker)].unwritten;
    unwritten += output->bytes.size();
    if (unwritten > wire::kOutputWindowBytes) {
      return GuardViolation(message, fmt::format("worker {} sent more than its credit", *worker));
    }
  }
  return {};
}

void WorkerGuard::OnWritten(int worker, uint32_t bytes) {
  if (Find(worker) == nullptr) return;
  uint64_t& unwritten = rows_[static_cast<size_t>(worker)].unwritten;
  unwritten -= std::min<uint64_t>(unwritten, bytes);
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
