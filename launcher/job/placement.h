// SPDX-License-Identifier: Apache-2.0
// From hosts with slots to one RankInfo per worker, as Horovod assigns ranks. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_PLACEMENT_H_
#define HVDRAY_LAUNCHER_JOB_PLACEMENT_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host_slots.h"
#include "base/result.h"
#include "base/types.h"
#include "rendezvous/kv_store.h"
#include "wire/message.h"

namespace hvdray {

/// Most workers of a job; bounds what a slip in a host file can allocate.
inline constexpr int kMaxRanks = 65536;

/// Everything that a worker is told about its place.
struct RankInfo {
  std::string host;
  int host_index = 0;  ///< Position in the host list.
  int rank = 0;
  int size = 0;
  int local_rank = 0;
  int local_size = 0;
  int cross_rank = 0;
  int cross_size = 0;
  bool operator==(const RankInfo&) const = default;
};

/// Ranks are 0..N-1, contiguous per host in host order; local ranks are dense; cross_rank is the
/// position among the hosts that have that local rank. `max_np` caps the number of workers.
/// Errors: kNotEnoughSlots, in Horovod's words, if fewer than `min_np` fit; kSpecInvalid for a host
/// listed twice, negative slots, or more than kMaxRanks workers.
Result<std::vector<RankInfo>> AssignRanks(std::span<const HostSlots> hosts, int min_np,
                                          std::optional<int> max_np);

/// "0,4,0,2,0,2": Horovod's answer to rank_and_size. Rank and size: global, local, cross.
std::string ToRankAndSize(const RankInfo& info);

/// The message that starts the workers of `host_index`, with the fields about their place. The
/// caller adds command, environment, interfaces, master and the like.
wire::StartGeneration StartOfHost(std::span<const RankInfo> ranks, int host_index);

/// What the rendezvous needs to know of an assignment: the sizes of the scopes "global",
/// "local_<host>" and "cross_<local rank>", and the answer to rank_and_size for every slot
/// (docs/rendezvous.md). `ranks`: as AssignRanks() returns them.
KvAssignment ToKvAssignment(std::span<const RankInfo> ranks, Generation generation);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_PLACEMENT_H_
