// SPDX-License-Identifier: Apache-2.0
// Finds and kills a gang's orphans: members of its cgroup, and children that this process adopted
// as their subreaper. Never touches a living worker. docs/adr/0003-keeper-and-cleanup.md.
#ifndef HVDRAY_AGENT_ORPHANS_H_
#define HVDRAY_AGENT_ORPHANS_H_

#include <sys/types.h>

#include <functional>
#include <set>
#include <vector>

#include "agent/cgroup.h"
#include "base/loop.h"

namespace hvdray {

/// Children of this process, including dead ones. Reads /proc/self/task/*/children; on kernels
/// without CONFIG_PROC_CHILDREN, every /proc/PID/stat.
std::vector<pid_t> ListChildren();

using IsWorkerFn = std::function<bool(pid_t)>;

/// Reaps dead children that are not workers. Does not block.
void ReapOrphans(const IsWorkerFn& is_worker);

/// Kills and reaps all children of this process, and those that it adopts meanwhile, for at most
/// `limit`. Blocks.
void KillChildren(Duration limit);

/// Kills a gang's remaining processes step by step on the loop; never blocks. Threads: the loop's.
class Sweeper {
 public:
  /// `cgroup` may be null; it and `is_worker` must remain valid until the sweep has ended.
  /// `is_foreign`: children of this process outside the cgroup that may belong to a sibling gang;
  /// empty: none.
  Sweeper(Loop& loop, Cgroup* cgroup, IsWorkerFn is_worker, IsWorkerFn is_foreign = {});
  /// Kills until no process is left or `limit` has passed. `on_done` gets the number of killed
  /// processes and whether all are gone. Called once.
  void Run(Duration limit, std::function<void(uint32_t swept, bool is_clean)> on_done);

 private:
  void Step();
  bool KillOnce();

  Loop& loop_;
  Cgroup* cgroup_;
  IsWorkerFn is_worker_;
  IsWorkerFn is_foreign_;
  std::function<void(uint32_t, bool)> on_done_;
  std::set<pid_t> killed_;
  TimePoint deadline_{};
  Duration pause_{};
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_ORPHANS_H_
