#include "launcher/job/kv_assignment.h"

#include <fmt/format.h>

namespace hvdray {

KvAssignment KvAssignmentOf(std::span<const RankInfo> ranks, Generation generation) {
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
