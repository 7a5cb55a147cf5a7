// Finds and ends processes that a gang has left behind: members of its cgroup, and children that
// this process got as their subreaper. Never touches a living worker.
#ifndef HVDRAY_AGENT_STRAYS_H_
#define HVDRAY_AGENT_STRAYS_H_

#include <sys/types.h>

#include <functional>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "agent/cgroup.h"
#include "base/loop.h"

namespace hvdray {

/// Children of this process, dead ones too. From /proc/self/task/*/children, else (a kernel without
/// CONFIG_PROC_CHILDREN) by reading every /proc/PID/stat.
std::vector<pid_t> ListChildren();

/// The parent in the text of /proc/PID/stat, whose second field may hold anything. Pure.
std::optional<pid_t> ParseParent(std::string_view stat);

using IsWorkerFn = std::function<bool(pid_t)>;

/// Reaps dead children that are no workers. Does not block.
void ReapStrays(const IsWorkerFn& is_worker);

/// Ends everything that is left of a gang, step by step on the loop, so that nothing blocks.
/// Threads: the loop's.
class Sweeper {
 public:
  /// `cgroup` may be null; it and `is_worker` must stay until the sweep is done. `is_foreign`:
  /// children of this process, outside of the cgroup, that are not this gang's to end; empty: none.
  Sweeper(Loop& loop, Cgroup* cgroup, IsWorkerFn is_worker, IsWorkerFn is_foreign = {});
  /// Kills until nothing is left or `limit` has passed. `on_done` gets the number of processes that
  /// had to be killed and whether all are gone; called once, never from within this call. It may
  /// destroy the sweeper.
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

#endif  // HVDRAY_AGENT_STRAYS_H_
