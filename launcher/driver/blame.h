// SPDX-License-Identifier: Apache-2.0
// Which member of a generation is to blame for its end, and how long the others may take to show
// that it is one of them. Pure; changes no more of the roster than who is a victim.
#ifndef HVDRAY_LAUNCHER_DRIVER_BLAME_H_
#define HVDRAY_LAUNCHER_DRIVER_BLAME_H_

#include <optional>
#include <set>
#include <span>
#include <vector>

#include "launcher/driver/verdict.h"
#include "launcher/driver/worker_roster.h"

namespace hvdray {

/// Always: until errors are weighed, the first failure is no victim, and one that aborted is it
/// only while no host was lost and none crashed; of members that connected together, none failed
/// otherwise. A moment begins once, and ends less than kLongestMoment and one length later.
/// `members`: all of the generation, by rank. A value; threads: one.
class Blame {
 public:
  static constexpr Duration kLongestMoment = std::chrono::seconds(3);  // as in GangPolicy

  /// `begun`: when the generation was published; errors from before are not its.
  explicit Blame(TimePoint begun = {}) : begun_(begun) {}

  /// Horovod's workers abort when a peer dies during their init barrier, and now and then (Gloo's
  /// EnforceNotMet) in an operation.
  static bool IsAbort(const wire::ExitStatus& status);

  /// A member has failed by itself. `was_broken`: not as the first loss. `is_together`: the members
  /// were connecting, so that victims may be reported before the culprit. Returns what
  /// ForgiveAborted() does.
  WorkerId NoteFailed(WorkerRoster& roster, WorkerId worker, bool was_broken, bool is_together);
  /// The cause is known now: the member that aborted earlier is its victim. kNoWorker: none did.
  WorkerId ForgiveAborted(WorkerRoster& roster);
  /// Weighs the members' errors, if there are any; else the first member to end stays the culprit.
  void Weigh(WorkerRoster& roster, std::span<const WorkerId> members);

  /// From the first failure on, the others may end by themselves for `length`. Once.
  void BeginMoment(TimePoint now, Duration length);
  /// Hosts whose workers are stopped at the end of the moment.
  void EvictAfterMoment(int host) { to_evict_.insert(host); }
  /// At moment_by(). False: it lasts for one more `length`, since no error is a worker's own, or a
  /// worker that has shown one still runs.
  bool EndMoment(const WorkerRoster& roster, std::span<const WorkerId> members, TimePoint now,
                 Duration length);

  const std::optional<WorkerRecord>& first_failure() const { return first_failure_; }
  /// Index -1: not weighed, or no error says more than the order of the ends.
  const Culprit& culprit() const { return culprit_; }
  const std::optional<TimePoint>& moment_by() const { return moment_by_; }
  const std::set<int>& to_evict() const { return to_evict_; }

 private:
  std::vector<WorkerRecord> Suspects(const WorkerRoster& roster,
                                     std::span<const WorkerId> members) const;

  TimePoint begun_;
  std::optional<WorkerRecord> first_failure_;
  WorkerId first_failed_ = kNoWorker;  // the worker of first_failure_
  Culprit culprit_;
  TimePoint failing_since_{};  // when the moment began
  std::optional<TimePoint> moment_by_;
  std::set<int> to_evict_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_BLAME_H_
