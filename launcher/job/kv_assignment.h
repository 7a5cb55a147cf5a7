// What the rendezvous has to know of an assignment. Pure.
#ifndef HVDRAY_LAUNCHER_JOB_KV_ASSIGNMENT_H_
#define HVDRAY_LAUNCHER_JOB_KV_ASSIGNMENT_H_

#include <span>

#include "base/types.h"
#include "launcher/job/placement.h"
#include "rendezvous/kv_store.h"

namespace hvdray {

/// Sizes of the scopes "global", "local_<host>" and "cross_<local rank>", and the answer to
/// rank_and_size of every slot. `ranks` is what AssignRanks() gave. Source: Horovod spec 2.5, 2.6.
KvAssignment KvAssignmentOf(std::span<const RankInfo> ranks, Generation generation);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_KV_ASSIGNMENT_H_
