// SPDX-License-Identifier: Apache-2.0
// What ElasticDriver remembers about the present round and the next generation. Plain values; only
// the driver changes them.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROUND_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROUND_H_

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/driver/culprit.h"
#include "launcher/driver/elastic_plan.h"
#include "launcher/driver/elastic_states.h"

namespace hvdray {

/// Public state of an elastic job, by value; see ElasticDriver::Snapshot().
struct ElasticSnapshot {
  ElasticState state = ElasticState::kGathering;
  Generation generation = 0;
  int size = 0;  ///< Of the published generation.
  WorkerRoster::Counts counts;
  int slots_found = 0;  ///< On available hosts.
  uint32_t resets = 0;  ///< Counted against --reset-limit; gang mode: restarts after failures.
  uint64_t stale_events = 0;
};

/// State of the published generation; reset with each.
struct ElasticRound {
  HostPlan plan;
  std::vector<WorkerId> members;  ///< By rank.
  TimePoint begun{};              ///< When it was published.
  int done = 0;                   ///< Members that exited with 0 by themselves.
  WorkerId first_done = kNoWorker;
  std::optional<WorkerRecord> first_failure;
  WorkerId first_failed = kNoWorker;  ///< The worker of `first_failure`.
  bool is_broken = false;             ///< A member was lost or is being stopped.
  bool has_failures = false;          ///< Some of these losses were not announced.
  bool is_break_ordered = false;      ///< BreakConnections was sent.
  int met = 0;                        ///< Living members that wait for OpenBarrier.
  bool is_open = false;               ///< OpenBarrier was sent.
  int connected = 0;                  ///< Members that left hvd.init(), dead or alive.
  /// Set once all have connected: when all have left hvd.init().
  std::optional<TimePoint> through_at;
  bool fell_apart = false;           ///< Broken before `through_at`.
  bool has_lost_host = false;        ///< A lost host had members.
  std::optional<TimePoint> meet_by;  ///< Deadline of the others, set once one member waits.
  TimePoint failing_since{};         ///< When `first_failure` arrived.
  /// Until then the others may end by themselves; may be extended.
  std::optional<TimePoint> moment_by;
  std::set<int> to_evict;  ///< Hosts whose workers are stopped at `moment_by`.
  Culprit culprit;         ///< Weighed at the end of the round, if there was a failure.

  /// The init barrier is open, and some members are not connected to all others yet.
  bool is_connecting() const { return is_open && connected < static_cast<int>(members.size()); }
};

/// The generation that is being prepared.
/// Its plan and the ranks of that plan.
struct ElasticNext {
  HostPlan plan;
  std::vector<RankInfo> ranks;
};

/// Progress towards the next generation.
struct ElasticApproach {
  std::optional<ElasticNext> next;
  std::vector<WorkerId> newcomers;  ///< Started for the next generation.
  std::map<std::pair<int, int>, int>
      tries;               ///< Failed starts of newcomers, by host and local rank.
  HostPlan target;         ///< The largest gang possible now.
  int potential = 0;       ///< Size of `target` if all agents were ready.
  bool is_urgent = false;  ///< A host with members will leave soon.
  bool is_dirty = true;    ///< Hosts or slots changed.
  int refill_to = 0;       ///< Size before failures shrank the gang.
  std::optional<TimePoint>
      settle_deadline;                   ///< Set when enough hosts are ready while others connect.
  std::optional<TimePoint> next_notice;  ///< When the gang is called again.
  std::optional<TimePoint> straggler_deadline;
  std::map<int, TimePoint> clear_at;                ///< Leaving hosts: deadline of their workers.
  std::set<std::pair<TimePoint, WorkerId>> limits;  ///< Deadlines of processes; may be stale.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROUND_H_
