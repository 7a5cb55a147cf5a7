// SPDX-License-Identifier: Apache-2.0
// The published generation of an elastic job: its members, and what has become of them. Pure;
// decides nothing.
#ifndef HVDRAY_LAUNCHER_DRIVER_ROUND_H_
#define HVDRAY_LAUNCHER_DRIVER_ROUND_H_

#include <utility>
#include <vector>

#include "launcher/driver/blame.h"
#include "launcher/driver/elastic_plan.h"
#include "launcher/driver/init_barrier.h"
#include "launcher/driver/worker_roster.h"

namespace hvdray {

/// Always: it breaks once and stays broken; its init barrier opens only while it is whole; whether
/// it fell apart or was through is known once it breaks, and is never both. A value; threads: one.
class Round {
 public:
  Round() = default;
  /// `members`: by rank, one for each place of `plan`. `now`: when it was published.
  Round(HostPlan plan, std::vector<WorkerId> members, TimePoint now)
      : plan_(std::move(plan)), members_(std::move(members)), barrier_(size()), blame_(now) {}

  const HostPlan& plan() const { return plan_; }
  const std::vector<WorkerId>& members() const { return members_; }
  int size() const { return static_cast<int>(members_.size()); }
  InitBarrier& barrier() { return barrier_; }
  const InitBarrier& barrier() const { return barrier_; }
  Blame& blame() { return blame_; }
  const Blame& blame() const { return blame_; }

  /// That rank has a new process.
  void Replace(int rank, WorkerId worker) { members_[static_cast<size_t>(rank)] = worker; }
  /// InitBarrier::Meet() of a round that may be broken.
  bool Meet(TimePoint limit, bool can_open) { return barrier_.Meet(limit, can_open && is_whole()); }
  /// A member is lost or being stopped.
  void Break(TimePoint now);
  /// Breaks, by a loss that nobody had announced.
  void Fail(TimePoint now);
  /// Breaks, by the loss of a host with members.
  void LoseHost(TimePoint now);
  /// Weighs who is to blame, as far as that is known now.
  void Weigh(WorkerRoster& roster) { blame_.Weigh(roster, members_); }
  /// A member has ended with 0 by itself.
  void NoteDone(WorkerId member);

  bool is_broken() const { return is_broken_; }
  bool is_whole() const { return !is_broken_ && done_ == 0; }
  bool has_failures() const { return has_failures_; }
  bool has_lost_host() const { return has_lost_host_; }
  /// It broke while the members connected in hvd.init().
  bool fell_apart() const { return fell_apart_; }
  /// It broke after all had left hvd.init().
  bool was_through() const { return was_through_; }
  int done() const { return done_; }
  WorkerId first_done() const { return first_done_; }

  /// A member waits in hvd.init() for one that will never come. Horovod can't recover there: the
  /// waiting worker has no connection yet whose end would make it retry.
  bool IsBarrierLost() const;
  /// Members go on on hosts other than that one and those that are to be stopped.
  bool HasMembersElsewhere(const WorkerRoster& roster, int host) const;

 private:
  HostPlan plan_;
  std::vector<WorkerId> members_;
  InitBarrier barrier_;
  Blame blame_;
  int done_ = 0;
  WorkerId first_done_ = kNoWorker;
  bool is_broken_ = false;
  bool has_failures_ = false;
  bool has_lost_host_ = false;
  bool fell_apart_ = false;
  bool was_through_ = false;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ROUND_H_
