// SPDX-License-Identifier: Apache-2.0
// Which changes of an elastic job count against --reset-limit, and how many there were. Pure.
// Rules: docs/elastic.md, "The model".
#ifndef HVDRAY_LAUNCHER_DRIVER_RESET_COUNT_H_
#define HVDRAY_LAUNCHER_DRIVER_RESET_COUNT_H_

#include <optional>
#include <vector>

#include "launcher/driver/round.h"

namespace hvdray {

/// Always: the count does not exceed the limit; a change after an unannounced loss counts; one that
/// only brings back the workers that such losses took does not. A value; threads: one.
class ResetCount {
 public:
  explicit ResetCount(std::optional<uint32_t> limit) : limit_(limit) {}

  uint32_t count() const { return count_; }
  /// No further change may count.
  bool IsUsedUp() const { return limit_ && count_ >= *limit_; }
  /// The change from `round` to `plan` counts. `changes`: between the two.
  bool IsCounted(const Round& round, const HostPlan& plan, const std::vector<HostChange>& changes,
                 const HostRegistry& hosts) const;
  /// Not when used up.
  void Add() { ++count_; }
  /// A generation of that size follows `round`.
  void NoteNext(const Round& round, int size);

 private:
  std::optional<uint32_t> limit_;
  uint32_t count_ = 0;
  int refill_to_ = 0;  // size before failures shrank the gang
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_RESET_COUNT_H_
