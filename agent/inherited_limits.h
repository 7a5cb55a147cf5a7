// SPDX-License-Identifier: Apache-2.0
// Undoes what processes on Ray inherit and training processes should not: blocked signals, a low
// soft limit on open files, niceness, and a raised out-of-memory score.
#ifndef HVDRAY_AGENT_INHERITED_LIMITS_H_
#define HVDRAY_AGENT_INHERITED_LIMITS_H_

#include <string>
#include <vector>

namespace hvdray {

/// Applies to this process and its later children. Returns one line for each property that the
/// system does not permit to restore. Call before starting threads. Source: Ray 2.60 starts workers
/// with niceness 15 and a raised oom_score_adj; docs/ray.md, "Environment of a worker".
std::vector<std::string> RepairInheritedLimits();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_INHERITED_LIMITS_H_
