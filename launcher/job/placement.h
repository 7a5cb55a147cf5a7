// SPDX-License-Identifier: Apache-2.0
// From hosts with slots to one RankInfo per worker (Horovod spec 1.3). Pure.
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

/// Most workers a job can have; a slip in a hostfile must not eat the memory.
inline constexpr int kMaxRanks = 65536;

/// Everything a worker is told about its place.
struct RankInfo {
  std::string host;
  int host_index = 0;  ///< Position in the host list that was given.
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
/// Errors: kNotEnoughSlots when fewer than `min_np` fit, in Horovod's words; kSpecInvalid for a
/// host listed twice, slots below 0, or more than kMaxRanks workers.
Result<std::vector<RankInfo>> AssignRanks(std::span<const HostSlots> hosts, int min_np,
                                          std::optional<int> max_np);

/// "0,4,0,2,0,2": Horovod's answer to rank_and_size. Order: rank, size, local, cross.
std::string ToRankAndSize(const RankInfo& info);

/// The place-related fields of the message that starts the workers of `host_index`; command,
/// environment, interfaces, master and the like are left to the caller.
wire::StartGeneration StartOfHost(std::span<const RankInfo> ranks, int host_index);

// What the rendezvous has to know of an assignment. Pure.

/// Sizes of the scopes "global", "local_<host>" and "cross_<local rank>", and the answer to
/// rank_and_size of every slot. `ranks` is what AssignRanks() gave. Source: Horovod spec 2.5, 2.6.
KvAssignment KvAssignmentOf(std::span<const RankInfo> ranks, Generation generation);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_PLACEMENT_H_
