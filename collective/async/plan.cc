// SPDX-License-Identifier: Apache-2.0
#include "collective/async/plan.h"

#include <algorithm>
#include <utility>

#include "collective/async/agreement.h"

namespace hvdray {

bool PlannedOperation::operator==(const PlannedOperation& other) const {
  return Encode(*request) == Encode(*other.request) && error.ToString() == other.error.ToString() &&
         absent == other.absent && rows == other.rows && last_rank == other.last_rank &&
         sequence == other.sequence && process_set == other.process_set;
}

std::vector<Batch> Fuse(std::vector<PlannedOperation> ready, const NegotiationSettings& settings) {
  std::vector<Batch> batches;
  struct Open {
    size_t index;
    size_t bytes;
  };
  std::vector<Open> open;
  for (PlannedOperation& operation : ready) {
    const Request& request = *operation.request;
    const size_t bytes = request.Bytes();
    const bool is_small = operation.error.ok() && request.kind == RequestKind::kAllReduce &&
                          bytes < settings.small_bytes && bytes <= settings.fusion_bytes;
    const auto place = std::find_if(open.begin(), open.end(), [&](const Open& each) {
      const PlannedOperation& other = batches[each.index].front();
      return is_small && each.bytes + bytes <= settings.fusion_bytes &&
             GoTogether(request, *other.request) && operation.absent == other.absent &&
             (settings.fuses_groups || request.group == other.request->group);
    });
    if (place != open.end()) {
      place->bytes += bytes;
      batches[place->index].push_back(std::move(operation));
      continue;
    }
    if (is_small) open.push_back({batches.size(), bytes});
    batches.emplace_back();
    batches.back().push_back(std::move(operation));
  }
  return batches;
}

}  // namespace hvdray
