// SPDX-License-Identifier: Apache-2.0
#include "launcher/driver/init_barrier.h"

#include <algorithm>

namespace hvdray {
namespace {

// The rest of hvd.init() once all are connected: two small collectives that leave no trace here. A
// loss within them ends the others like an earlier one.
constexpr Duration kRestOfInit = std::chrono::seconds(1);

}  // namespace

bool InitBarrier::Meet(TimePoint limit, bool can_open) {
  ++met_;
  if (!can_open) return false;
  if (!limit_) limit_ = limit;
  if (met_ < members_) return false;
  is_open_ = true;
  limit_.reset();
  return true;
}

void InitBarrier::Connect(TimePoint now) {
  ++connected_;
  if (is_open_ && !is_connecting()) through_at_ = now + kRestOfInit;
}

void InitBarrier::NoteThrough(TimePoint now) {
  if (through_at_) through_at_ = std::min(*through_at_, now);
}

}  // namespace hvdray
