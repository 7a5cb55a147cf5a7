// SPDX-License-Identifier: Apache-2.0
#include "launcher/job/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/tcp_address.h"

namespace hvdray {
namespace {

Status CheckHosts(std::span<const HostSlots> hosts) {
  std::unordered_set<std::string> seen;
  for (const HostSlots& host : hosts) {
    if (!seen.insert(HostNameKey(host.host)).second) {
      return {ErrorCode::kSpecInvalid, fmt::format("host {} is listed twice", host.host),
              fmt::format("list it once with all its slots ({}:N)", host.host)};
    }
    if (host.slots < 0) {
      return {ErrorCode::kSpecInvalid,
              fmt::format("host {} has {} slots; the number cannot be negative", host.host,
                          host.slots)};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<RankInfo>> AssignRanks(std::span<const HostSlots> hosts, int min_np,
                                          std::optional<int> max_np) {
  HVDRAY_RETURN_IF_ERROR(CheckHosts(hosts));
  const int limit = std::min(max_np.value_or(kMaxRanks + 1), kMaxRanks + 1);
  std::vector<RankInfo> ranks;
  std::vector<int> hosts_with;  // By local rank: how many hosts have that one.
  for (size_t i = 0; i < hosts.size(); ++i) {
    const int room = std::max(0, limit - static_cast<int>(ranks.size()));
    const int local_size = std::min(hosts[i].slots, room);
    if (static_cast<size_t>(local_size) > hosts_with.size()) hosts_with.resize(local_size, 0);
    for (int local_rank = 0; local_rank < local_size; ++local_rank) {
      ranks.push_back({.host = hosts[i].host,
                       .host_index = static_cast<int>(i),
                       .rank = static_cast<int>(ranks.size()),
                       .local_rank = local_rank,
                       .local_size = local_size,
                       .cross_rank = hosts_with[local_rank]++});
    }
  }
  const int size = static_cast<int>(ranks.size());
  if (size > kMaxRanks) {
    return Status(ErrorCode::kSpecInvalid,
                  fmt::format("the hosts have more than {} slots in total", kMaxRanks),
                  "cap the number of workers with -np");
  }
  if (size < min_np) {
    return Status(ErrorCode::kNotEnoughSlots,
                  fmt::format("Requested more processes ({}) than there are available slots ({})",
                              min_np, size),
                  "lower -np, or name more hosts or slots (-H host:slots)");
  }
  for (RankInfo& info : ranks) {
    info.size = size;
    info.cross_size = hosts_with[info.local_rank];
  }
  return ranks;
}

std::string ToRankAndSize(const RankInfo& info) {
  return fmt::format("{},{},{},{},{},{}", info.rank, info.size, info.local_rank, info.local_size,
                     info.cross_rank, info.cross_size);
}

wire::StartGeneration StartOfHost(std::span<const RankInfo> ranks, int host_index) {
  wire::StartGeneration start;
  start.host_index = 0;
  start.host_count = 0;
  int previous = -1;
  for (const RankInfo& info : ranks) {  // Contiguous by host, so a new index means a new host.
    if (info.host_index != previous) {
      previous = info.host_index;
      if (info.host_index == host_index) start.host_index = start.host_count;
      ++start.host_count;
    }
    if (info.host_index != host_index) continue;
    start.size = info.size;
    start.local_size = info.local_size;
    start.host_name = info.host;
    start.workers.push_back({.rank = info.rank,
                             .local_rank = info.local_rank,
                             .cross_rank = info.cross_rank,
                             .cross_size = info.cross_size});
  }
  return start;
}

KvAssignment ToKvAssignment(std::span<const RankInfo> ranks, Generation generation) {
  KvAssignment assignment;
  assignment.generation = generation;
  for (const RankInfo& info : ranks) {
    assignment.scope_sizes["global"] = info.size;
    assignment.scope_sizes["local_" + info.host] = info.local_size;
    assignment.scope_sizes[fmt::format("cross_{}", info.local_rank)] = info.cross_size;
    assignment.rank_and_size[fmt::format("{}:{}", info.host, info.local_rank)] =
        ToRankAndSize(info);
  }
  return assignment;
}

}  // namespace hvdray
