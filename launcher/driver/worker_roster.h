// SPDX-License-Identifier: Apache-2.0
// The processes of a job: which one runs on which slot, in which role, and how far it has come.
// Keeps counts, so that no fact costs a walk over all. Pure; decides nothing.
#ifndef HVDRAY_LAUNCHER_DRIVER_WORKER_ROSTER_H_
#define HVDRAY_LAUNCHER_DRIVER_WORKER_ROSTER_H_

#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "launcher/driver/states.h"
#include "launcher/driver/verdict.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// Owned by a driver. Keeps every process, also after its end. Threads: one.
class WorkerRoster {
 public:
  enum class Role : uint8_t {
    kNewcomer,  ///< Started for an unpublished generation.
    kMember,    ///< Of the published generation.
    kRemoved,   ///< Learned that it has no rank any more; ends by itself.
  };
  struct Process {
    WorkerRecord record;
    RankInfo place;  ///< In the generation it was started for or last released into.
    Role role = Role::kNewcomer;
    WorkerState state = WorkerState::kPending;
    bool has_arrived = false;     ///< Newcomers: the relay holds its requests in hvd.init().
    bool has_met = false;         ///< Members: reached the init barrier.
    bool has_connected = false;   ///< Members: left hvd.init().
    bool is_parked = false;       ///< Members: waits for its next rank.
    bool is_registered = false;   ///< Its notification address is known.
    bool is_told_to_end = false;  ///< By us: its exit is not a failure.
    TimePoint limit{};            ///< Deadline to arrive, leave or end.
    /// Which of own_failures() and erring() includes it.
    enum class Part : uint8_t { kNone, kOwnFailure, kErring } part = Part::kNone;
    int host() const { return place.host_index; }
  };
  /// Counts of living processes.
  struct Counts {
    int living = 0;
    int members = 0;
    int staying = 0;    ///< Members not told to end.
    int parked = 0;     ///< Members.
    int unsettled = 0;  ///< Members and removed ones, not parked.
    int newcomers = 0;  ///< Not told to end.
    int arrived = 0;    ///< Of these, waiting in hvd.init().
    int orphans = 0;    ///< Newcomers told to end.
    int starting = 0;   ///< Not reported as started, nor told to end.
  };

  /// `on_change` is called for each change of a process, from within the call that makes it;
  /// StateChange.rank is the rank it was started with. `first`: the number of the first process.
  explicit WorkerRoster(StateChangeFn on_change, WorkerId first = 0)
      : on_change_(std::move(on_change)), first_(first) {}

  /// Adds a process in kStarting; its slot must be free. Returns its number.
  WorkerId Add(const RankInfo& place, Generation generation, Role role, TimePoint now);
  /// nullptr unless it lives; valid until the next Add().
  const Process* Living(WorkerId worker) const;
  /// Also after its end. `worker` comes from Add().
  const Process& Of(WorkerId worker) const { return processes_[worker - first_]; }
  /// The process living on that slot, or kNoWorker.
  WorkerId On(int host, int local_rank) const;
  /// Living processes of a host, by local rank.
  std::vector<WorkerId> LivingOn(int host) const;
  int CountLivingOn(int host) const;
  const Counts& counts() const { return counts_; }
  /// Processes that failed by themselves and blame no peer.
  int own_failures() const { return own_failures_; }
  /// Running processes that have shown an error of their own and may be about to end.
  int erring() const { return erring_; }

  // Each takes a fact about a living process and returns whether it was new.
  bool MarkStarted(WorkerId worker, uint32_t pid, TimePoint now);
  bool MarkArrived(WorkerId worker);
  bool MarkMet(WorkerId worker);
  bool MarkConnected(WorkerId worker);
  bool MarkParked(WorkerId worker);
  bool MarkRegistered(WorkerId worker);
  /// May be repeated with less grace.
  bool MarkToldToEnd(WorkerId worker, Duration grace, TimePoint now);
  /// `was_stopping`: see WorkerRecord.
  bool MarkEnded(WorkerId worker, const wire::ExitStatus& status, bool was_stopping, TimePoint now);
  /// Valid after the process's end, too.
  bool MarkErred(WorkerId worker, const LastError& error, std::optional<Duration> age,
                 TimePoint now);
  /// Lost with its host; exit status unknown.
  bool MarkLost(WorkerId worker, TimePoint now);
  /// Its end was another worker's fault; see WorkerRecord::is_victim.
  void MarkVictim(WorkerId worker) { At(worker).record.is_victim = true; }
  /// Replaces its deadline.
  void SetLimit(WorkerId worker, TimePoint limit);
  /// When TakeDue() may have work.
  std::optional<TimePoint> NextLimit() const;
  /// A living process whose deadline has passed, once for each SetLimit(); kNoWorker: none.
  WorkerId TakeDue(TimePoint now);

  /// From now on a living process is a member of the published generation, at that place.
  void Release(WorkerId worker, const RankInfo& place, Generation generation);
  /// A parked member got no place in the published generation: becomes kRemoved.
  void Remove(WorkerId worker);
  /// Copies of their records, in that order.
  std::vector<WorkerRecord> Records(std::span<const WorkerId> workers) const;

 private:
  Process& At(WorkerId worker) { return processes_[worker - first_]; }
  bool IsKnown(WorkerId worker) const {
    return worker >= first_ && worker - first_ < processes_.size();
  }
  Process* Find(WorkerId worker);
  void Enter(WorkerId worker, WorkerState to, TimePoint now);
  void End(WorkerId worker, WorkerState to, TimePoint now);
  /// Adds (+1) or removes (-1) the process's part of the counts.
  void Tally(const Process& process, int sign);
  void Recount(Process& process);

  StateChangeFn on_change_;
  WorkerId first_;
  std::vector<Process> processes_;                   // By number, from first_.
  std::vector<std::vector<WorkerId>> slots_;         // By host and local rank.
  std::set<std::pair<TimePoint, WorkerId>> limits_;  // may be stale
  Counts counts_;
  int own_failures_ = 0;
  int erring_ = 0;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_WORKER_ROSTER_H_
