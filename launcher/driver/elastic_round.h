// What ElasticDriver remembers: of the present round, of the way to the next generation, and of the
// end. Values without rules; the driver alone changes them.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROUND_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROUND_H_

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/driver/culprit.h"
#include "launcher/driver/elastic_cause.h"
#include "launcher/driver/elastic_plan.h"
#include "launcher/driver/elastic_states.h"

namespace hvdray {

/// What others may know of an elastic job, by value.
struct ElasticSnapshot {
  ElasticState state = ElasticState::kGathering;
  Generation generation = 0;
  int size = 0;  ///< Of the published generation.
  ElasticRoster::Counts counts;
  int slots_found = 0;  ///< On hosts that are not left out.
  uint32_t resets = 0;  ///< Counted ones; gang mode: restarts after failures.
  uint64_t stale_events = 0;
};

/// Of the published generation; begins anew with each.
struct ElasticRound {
  HostPlan plan;
  std::vector<WorkerId> members;  ///< By rank.
  TimePoint begun{};              ///< When it was published.
  int done = 0;                   ///< Members that exited 0 by themselves.
  WorkerId first_done = kNoWorker;
  std::optional<WorkerRecord> first_failure;
  WorkerId first_failed = kNoWorker;  ///< Whose that is.
  bool is_broken = false;             ///< A member was lost or is being stopped.
  bool has_failures = false;          ///< Unannounced ones among these.
  bool is_break_ordered = false;      ///< BreakConnections was sent.
  int met = 0;                        ///< Members that live and wait for OpenMeeting.
  bool is_open = false;               ///< OpenMeeting was sent.
  int connected = 0;                  ///< Members that were through with hvd.init(), dead or alive.
  /// Once all have connected: when all are out of hvd.init().
  std::optional<TimePoint> through_at;
  bool fell_apart = false;           ///< It was broken before that.
  bool has_lost_host = false;        ///< With members.
  std::optional<TimePoint> meet_by;  ///< Once one waits: by when the others must.
  TimePoint failing_since{};         ///< When first_failure came.
  /// Others may still end by themselves until then; looked at again, and maybe put off.
  std::optional<TimePoint> moment_by;
  std::set<int> to_evict;  ///< Hosts whose workers are stopped then.
  Culprit culprit;         ///< Weighed when the round ended, if there was anything to weigh.

  /// The meeting is open, and some are not connected to all others yet.
  bool is_connecting() const { return is_open && connected < static_cast<int>(members.size()); }
};

/// The generation that is being prepared.
struct ElasticNext {
  HostPlan plan;
  std::vector<RankInfo> ranks;
};

/// Of the way to the next generation.
struct ElasticApproach {
  std::optional<ElasticNext> next;
  std::vector<WorkerId> newcomers;           ///< Started for it.
  std::map<std::pair<int, int>, int> tries;  ///< Deaths of newcomers, by host and local rank.
  HostPlan target;                           ///< The largest that there could be now.
  int potential = 0;                         ///< Its size if every host's agent were ready.
  bool is_urgent = false;                    ///< A host with members leaves soon.
  bool is_dirty = true;                      ///< Hosts or slots have changed.
  int refill_to = 0;                         ///< Size before failures made the gang smaller.
  std::optional<TimePoint> settle_deadline;  ///< Enough are ready; others still connect.
  std::optional<TimePoint> next_notice;      ///< The gang is being called.
  std::optional<TimePoint> straggler_deadline;
  std::map<int, TimePoint> clear_at;                ///< Leaving hosts: when their workers must end.
  std::set<std::pair<TimePoint, WorkerId>> limits;  ///< Of processes; stale ones among them.
};

/// Of the job's end.
struct ElasticEnding {
  ElasticCause cause;
  std::set<int> unstopped;  ///< Hosts that have not reported that nothing is left.
  TimePoint since;
  Status output_damage;
  bool is_output_blocked = false;
  bool is_timed_out = false;
  int signals = 0;
  uint32_t swept = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROUND_H_
