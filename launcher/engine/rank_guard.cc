#include "launcher/engine/rank_guard.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace hvdray {
Status GuardViolation(const wire::Message& message, std::string_view what) {
  return {ErrorCode::kProtocolError,
          fmt::format("{}: {}", wire::NameOf(wire::TypeOf(message.body)), what)};
}

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

void RankGuard::StartGeneration(Generation generation, std::span<const RankInfo> ranks) {
  generation_ = generation;
  for (Rank& rank : ranks_) {
    rank.host = -1;
    rank.left_over += std::exchange(rank.unwritten, 0);
  }
  // A shrinking gang keeps the rows of removed ranks: their output may still be queued.
  ranks_.resize(std::max(ranks_.size(), ranks.size()));
  for (const RankInfo& info : ranks) ranks_[static_cast<size_t>(info.rank)].host = info.host_index;
}

Status RankGuard::Check(int host, const wire::Message& message) {
  if (message.generation > generation_) {
    return GuardViolation(message, fmt::format("generation {} has not begun", message.generation));
  }
  if (IsStale(message)) return {};
  const std::optional<int> rank = WorkerNamedBy(message.body);
  if (!rank) return {};
  if (HostOf(*rank) != host) {
    return GuardViolation(message, fmt::format("rank {} is not on this host", *rank));
  }
  if (const auto* output = std::get_if<wire::Output>(&message.body)) {
    Rank& row = ranks_[static_cast<size_t>(*rank)];
    row.unwritten += output->bytes.size();
    if (row.unwritten > wire::kOutputWindowBytes) {
      return GuardViolation(message, fmt::format("rank {} sent more than its credit", *rank));
    }
  }
  return {};
}

uint32_t RankGuard::OnWritten(int rank, uint32_t bytes) {
  if (rank < 0 || static_cast<size_t>(rank) >= ranks_.size()) return 0;
  Rank& row = ranks_[static_cast<size_t>(rank)];
  const auto late = static_cast<uint32_t>(std::min<uint64_t>(row.left_over, bytes));
  row.left_over -= late;
  const auto current = static_cast<uint32_t>(std::min<uint64_t>(row.unwritten, bytes - late));
  row.unwritten -= current;
  return current;
}

int RankGuard::HostOf(int rank) const {
  if (rank < 0 || static_cast<size_t>(rank) >= ranks_.size()) return -1;
  return ranks_[static_cast<size_t>(rank)].host;
}

}  // namespace hvdray
