// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/reset_count.h"

#include <algorithm>

namespace hvdray {

bool ResetCount::IsCounted(const Round& round, const HostPlan& plan,
                           const std::vector<HostChange>& changes,
                           const HostRegistry& hosts) const {
  if (round.has_failures()) return true;
  const bool has_left = std::any_of(changes.begin(), changes.end(),
                                    [](const HostChange& c) { return c.workers < 0; });
  const bool has_joined = std::any_of(changes.begin(), changes.end(),
                                      [](const HostChange& c) { return c.workers > 0; });
  if (has_joined && !has_left) return SizeOf(plan) > refill_to_;
  if (!has_left || has_joined) return true;
  // Hosts that leave with notice, or keep fewer slots, are free.
  return std::any_of(round.plan().begin(), round.plan().end(), [&](const HostShare& share) {
    const bool stays_whole = std::any_of(plan.begin(), plan.end(), [&](const HostShare& s) {
      return s.host == share.host && s.count >= share.count;
    });
    return !stays_whole && !hosts.host(share.host).is_leaving;
  });
}

void ResetCount::NoteNext(const Round& round, int size) {
  if (round.has_failures()) refill_to_ = std::max(refill_to_, round.size());
  if (size >= refill_to_) refill_to_ = 0;
}

}  // namespace hvdray
