// SPDX-License-Identifier: Apache-2.0
// What the negotiation comes to. Pure.
#ifndef HVDRAY_COLLECTIVE_ASYNC_PLAN_H_
#define HVDRAY_COLLECTIVE_ASYNC_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/status.h"
#include "collective/async/request.h"

namespace hvdray {

/// The same on all ranks.
struct NegotiationSettings {
  /// Tensors of fewer bytes are reduced together, in a buffer; others where they are.
  size_t small_bytes = size_t{256} << 10;
  size_t fusion_bytes = size_t{64} << 20;  ///< At most in the buffer at once; 0: never together.
  bool fuses_groups = true;                ///< Whether tensors of a group may go with others.
};

/// One operation that is there on all its ranks, or has failed on those that submitted it.
struct PlannedOperation {
  std::shared_ptr<const Request> request;  ///< The first member's.
  Status error;                            ///< kUsage: the ranks disagree.
  std::vector<int> absent;                 ///< Submitted none: they have joined, or it has failed.
  /// kAllGather: the first dimension of each member. kAllToAll: what the first member sends to each
  /// member, then the second, …
  std::vector<int64_t> rows;
  int last_rank = -1;               ///< kJoin.
  int64_t sequence = 0;             ///< kJoin: the largest.
  int process_set = 0;              ///< kAddProcessSet: the new id.
  const OwnRequest* own = nullptr;  ///< This rank's; nullptr: it has submitted none.

  bool operator==(const PlannedOperation& other) const;
};

/// Small all-reduces that go as one, or one operation.
using Batch = std::vector<PlannedOperation>;

struct Plan {
  std::vector<Batch> batches;  ///< In the order in which all ranks run them.
  Status end;                  ///< Not ok: after these, all ends.
  bool has_left = false;       ///< It ends as a rank has left in order.
};

/// Puts small all-reduces of a kind together, where the first of them is.
std::vector<Batch> Fuse(std::vector<PlannedOperation> ready, const NegotiationSettings& settings);

}  // namespace hvdray

#endif  // HVDRAY_COLLECTIVE_ASYNC_PLAN_H_
