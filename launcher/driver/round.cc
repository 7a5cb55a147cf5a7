// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/round.h"

#include <algorithm>

namespace hvdray {

void Round::Break(TimePoint now) {
  if (is_broken_) return;
  is_broken_ = true;
  was_through_ = barrier_.IsThrough(now);
  fell_apart_ = barrier_.is_open() && !was_through_;
}

void Round::Fail(TimePoint now) {
  Break(now);
  has_failures_ = true;
}

void Round::LoseHost(TimePoint now) {
  Break(now);
  has_lost_host_ = true;
}

void Round::NoteDone(WorkerId member) {
  if (++done_ == 1) first_done_ = member;
}

bool Round::IsBarrierLost() const {
  return !barrier_.is_open() && barrier_.met() > 0 && !is_whole();
}

bool Round::HasMembersElsewhere(const WorkerRoster& roster, int host) const {
  return std::any_of(plan_.begin(), plan_.end(), [&](const HostShare& share) {
    return share.host != host && HasMemberThatGoesOn(roster, share.host) &&
           !blame_.to_evict().contains(share.host);
  });
}

}  // namespace hvdray
