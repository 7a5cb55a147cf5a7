// SPDX-License-Identifier: Apache-2.0
// The generation that is being prepared while the present one trains: its places, and the workers
// started for them. Pure; the driver decides when it begins.
#ifndef HVDRAY_LAUNCHER_DRIVER_NEXT_GENERATION_H_
#define HVDRAY_LAUNCHER_DRIVER_NEXT_GENERATION_H_

#include <map>
#include <utility>
#include <vector>

#include "launcher/driver/elastic_plan.h"
#include "launcher/driver/events.h"
#include "launcher/driver/worker_roster.h"

namespace hvdray {

/// Always: a slot of the plan has at most one living worker; a newcomer that was promised another
/// place, or another number of its generation, is misplaced until it is told to end; while there is
/// one, the generation can't begin with newcomers. `number`: of the next generation. A value;
/// threads: one.
class NextGeneration {
 public:
  bool has_plan() const { return !plan_.empty(); }
  const HostPlan& plan() const { return plan_; }

  /// Replaces the plan; newcomers stay. `plan`: not empty.
  void Prepare(const HostPlan& plan, const HostRegistry& hosts);
  /// The plan can't be carried out; newcomers stay, since another one may need them.
  void DropPlan();
  /// Forgets the plan and all newcomers. Returns those that live and were not let in.
  std::vector<WorkerId> Abandon(const WorkerRoster& roster);

  /// Newcomers that were promised another place.
  std::vector<WorkerId> Misplaced(const WorkerRoster& roster, Generation number) const;
  /// Adds a worker for each place of the plan whose slot is free. Returns them.
  std::vector<NewWorker> StartMissing(WorkerRoster& roster, Generation number, TimePoint now);
  /// The generation can begin: each place has a continuing member or an arrived newcomer. If any
  /// newcomer is let in, the others must be gone, since they share its generation's number.
  bool IsMet(const WorkerRoster& roster, Generation number) const;

  /// Counts a failed start on that slot. Returns how many there were.
  int CountTry(int host, int local_rank) { return ++tries_[{host, local_rank}]; }
  void ForgetTries() { tries_.clear(); }

 private:
  HostPlan plan_;  // empty: none
  std::vector<RankInfo> ranks_;
  std::vector<WorkerId> newcomers_;
  std::map<std::pair<int, int>, int> tries_;  // by host and local rank
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_NEXT_GENERATION_H_
