// SPDX-License-Identifier: Apache-2.0
// Decides the life of an elastic job: which workers are in which generation, when newcomers start,
// when the gang is called, released, freed or stopped. Pure: takes facts and a time, returns
// effects; no I/O, no clock. docs/adr/0008-elastic-driver.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_DRIVER_H_

#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "launcher/driver/blame.h"
#include "launcher/driver/elastic_plan.h"
#include "launcher/driver/init_barrier.h"
#include "launcher/driver/job_driver.h"
#include "launcher/driver/membership_log.h"
#include "launcher/driver/next_generation.h"
#include "launcher/driver/states.h"
#include "launcher/driver/verdict.h"
#include "launcher/driver/worker_roster.h"

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

/// The state machine of an elastic job; its chart is in docs/elastic.md, "States". Owns the host
/// registry and the roster of processes. Never blocks. Threads: one caller at a time.
class ElasticDriver final : public JobDriver<ElasticState, ElasticEffect> {
 public:
  /// `policy` has passed CheckElasticPolicy(). `jitter_seed` makes cooldowns repeatable. --timeout
  /// counts from `now`. `on_change` is called for every change of state, from within Handle(), and
  /// must not call back.
  ElasticDriver(ElasticPolicy policy, uint64_t jitter_seed, TimePoint now,
                StateChangeFn on_change = {});

  /// Feeds one fact; returns what must be done now, in order. A `now` before the last one counts as
  /// the last one. Expired deadlines take effect with any event. Returns nothing after Finish.
  /// Facts about unknown processes or hosts are dropped and counted in stale_events.
  std::vector<ElasticEffect> Handle(const ElasticEvent& event, TimePoint now);
  /// Earliest time at which Handle(Tick{}) may have work; nullopt: only a new fact can change
  /// anything, or the job has ended.
  std::optional<TimePoint> NextDeadline() const;

  /// Valid as long as the driver; change with each Handle().
  const HostRegistry& hosts() const { return registry_; }
  const WorkerRoster& roster() const { return roster_; }
  /// State and counts for the status and the reports.
  ElasticSnapshot Snapshot() const;

 private:
  using Process = WorkerRoster::Process;

  /// State of the published generation; reset with each.
  struct Round {
    HostPlan plan;
    std::vector<WorkerId> members;  ///< By rank.
    InitBarrier barrier;
    Blame blame;
    int done = 0;  ///< Members that exited with 0 by themselves.
    WorkerId first_done = kNoWorker;
    bool is_broken = false;         ///< A member was lost or is being stopped.
    bool has_failures = false;      ///< Some of these losses were not announced.
    bool is_break_ordered = false;  ///< BreakConnections was sent.
    bool fell_apart = false;        ///< Broken while the members connected in hvd.init().
    bool has_lost_host = false;     ///< A lost host had members.
  };

  /// Progress towards the next generation.
  struct Approach {
    HostPlan target;         ///< The largest gang possible now.
    int potential = 0;       ///< Size of `target` if all agents were ready.
    bool is_urgent = false;  ///< A host with members will leave soon.
    bool is_dirty = true;    ///< Hosts or slots changed.
    int refill_to = 0;       ///< Size before failures shrank the gang.
    std::optional<TimePoint>
        settle_deadline;  ///< Set when enough hosts are ready while others connect.
    std::optional<TimePoint> next_notice;  ///< When the gang is called again.
    std::optional<TimePoint> grow_at;      ///< Gang mode: when new slots have been listed for long.
    std::optional<TimePoint> straggler_deadline;
    std::map<int, TimePoint> clear_at;                ///< Leaving hosts: deadline of their workers.
    std::set<std::pair<TimePoint, WorkerId>> limits;  ///< Deadlines of processes; may be stale.
  };

  // Facts.
  using JobDriver::On;
  void On(const event::HostsDiscovered& e);
  void On(const event::DiscoveryFailed& e);
  void On(const event::HostReady& e);
  void On(const event::HostLost& e);
  void On(const event::ProcessStarted& e);
  void On(const event::ProcessExited& e);
  void On(const event::ProcessErred& e) {
    Count(roster_.MarkErred(e.worker, e.error, e.age, now_));
  }
  void On(const event::WorkerArrived& e);
  void On(const event::WorkerMet& e);
  void On(const event::WorkerConnected& e);
  void On(const event::RankAsked& e);
  void On(const event::AddressesRegistered& e);
  void On(const event::HostCopying& e) { Count(registry_.MarkCopying(e.host)); }
  void On(const event::HostLeaving& e);
  void On(const event::GenerationStopped& e);
  void On(const event::Dismissed& e);
  void Advance() override;
  void Step();
  void ExpireState() override;
  void ExpireOthers() override;
  void ExpireProcesses();

  // Rounds.
  void AdvanceGathering();
  void AdvanceTraining();
  void BeginMeeting();
  void CloseRound();
  void Regroup();
  void EnterShort();
  bool HasSlotsInSight(int needed) const;
  bool HasEnough(int needed);
  bool Retarget();
  void ConnectHosts();
  void ReleaseHosts();
  void StartMissingWorkers();
  bool IsNextMet() const { return next_.IsMet(roster_, generation_ + 1); }
  void BeginRound(const HostPlan& plan, const std::vector<WorkerId>& members);
  bool IsCounted(const HostPlan& plan, const std::vector<HostChange>& changes) const;
  void Publish(HostPlan plan);
  void NoteRefill(int size);
  void StartAll();
  std::string WhyFewer(const std::string& name) const;
  void Announce(std::vector<HostChange> changes, bool is_counted);
  void AbandonJoin();
  void SetBell(bool is_on);
  void SendNotice();

  // The init barrier.
  bool Rejoin(WorkerId dead);
  bool IsBarrierLost() const;
  void NoteBroken();
  bool CanBeginAgain() const;
  void BeginAgain();
  void EndByLostBarrier();
  void ExpireBarrier();

  // Losses.
  void MemberFailed(WorkerId worker);
  void ChooseCulprit() { round_.blame.Weigh(roster_, round_.members); }
  void ExpireMoment();
  bool HasMembersElsewhere(int host) const;
  void NewcomerDied(WorkerId worker);
  void LoseHost(int host, const Status& why);
  void GiveUp(int host, const Status& why);
  void MarkFailed(int host);
  void Evict(int host);
  void StopWorkers(std::span<const WorkerId> workers, Duration grace);
  void BreakConnections();
  void StopStragglers();
  void ClearLeavingHost(int host);
  bool IsAnnounced(int host) const;
  void Watch(WorkerId worker, TimePoint limit);

  // Ends, and restarts of a gang.
  void AdvanceGang();
  bool IsDueForChange();
  bool CountChange();
  void AdvanceRestarting();
  void EndByDone();
  void StopAll(Duration grace) override;
  bool HasWorkers() const override { return !in_use_.empty(); }
  void Finish();
  void GiveUpUnstopped();
  bool IsGang() const { return policy_.mode == ElasticMode::kGang; }
  /// What the job counts: restarts after failures of a gang, else resets.
  uint32_t restarts() const { return IsGang() ? restarts_ : resets_; }

  const ElasticPolicy policy_;
  HostRegistry registry_;
  WorkerRoster roster_;
  MembershipLog log_;
  Generation started_generation_ = 0;  // The newest one with workers started for it.
  Round round_;
  Approach approach_;
  NextGeneration next_;
  std::set<int> unstopped_;  // Hosts that were told to stop and have not confirmed their end.
  std::set<int> in_use_;     // Hosts whose agents got workers.
  uint32_t resets_ = 0;
  Duration grace_;            // Of the job's end.
  std::string last_loss_;     // A host with members, and why; empty: none.
  std::string told_failure_;  // Printed with the restart; the membership line need not repeat it.
  int64_t last_timestamp_ = 0;
  bool has_begun_ = false;        // A gang has left hvd.init(): there is a state.
  bool was_begun_again_ = false;  // Restarted before any state existed.
  bool has_discovered_ = false;
  bool is_source_final_ = false;
  std::set<std::string> discovery_failures_;  // Told since the last list.
  bool is_change_counted_ = false;            // Of a gang that is being restarted.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_DRIVER_H_
