// SPDX-License-Identifier: Apache-2.0
// What both kinds of elastic jobs do alike: hosts that come and go, the start and the loss of
// workers, and the end. Pure: takes facts and a time, returns effects; no I/O, no clock.
// docs/adr/0008-elastic-driver.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_DRIVER_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launcher/driver/elastic_plan.h"
#include "launcher/driver/host_target.h"
#include "launcher/driver/job_driver.h"
#include "launcher/driver/membership_log.h"
#include "launcher/driver/reset_count.h"
#include "launcher/driver/round.h"
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
/// registry and the roster of processes. Always: a host that is in use is told to stop before the
/// job ends or a gang restarts, and answers or is given up; a worker that was told to end does so
/// within its grace and the margin, or its host is given up; one that ends otherwise on a host that
/// nobody had announced to leave is a failure. What a change does to the other workers is up to
/// HorovodDriver or ElasticGangDriver: MakeElasticDriver(). Never blocks. Threads: one caller at a
/// time.
class ElasticDriver : public JobDriver<ElasticState, ElasticEffect> {
 public:
  /// `policy` has passed CheckElasticPolicy(). `jitter_seed` makes cooldowns repeatable. --timeout
  /// counts from `now`. `on_change` is called for every change of state, from within Handle(), and
  /// must not call back.
  ElasticDriver(const ElasticPolicy& policy, uint64_t jitter_seed, TimePoint now,
                StateChangeFn on_change = {});
  ElasticDriver(const ElasticDriver&) = delete;
  ElasticDriver& operator=(const ElasticDriver&) = delete;
  virtual ~ElasticDriver() = default;

  /// Feeds one fact; returns what must be done now, in order. A `now` before the last one counts as
  /// the last one. Expired deadlines take effect with any event. Returns nothing after Finish.
  /// Facts about unknown processes or hosts are dropped and counted in stale_events.
  virtual std::vector<ElasticEffect> Handle(const ElasticEvent& event, TimePoint now) = 0;
  /// Earliest time at which Handle(Tick{}) may have work; nullopt: only a new fact can change
  /// anything, or the job has ended.
  std::optional<TimePoint> NextDeadline() const;

  /// Valid as long as the driver; change with each Handle().
  const HostRegistry& hosts() const { return registry_; }
  const WorkerRoster& roster() const { return roster_; }
  /// State and counts for the status and the reports.
  ElasticSnapshot Snapshot() const;

 protected:
  using Process = WorkerRoster::Process;

  // What the kinds of jobs do differently.

  /// Acts on the known facts, from the first generation until the job is to end.
  virtual void AdvanceRunning() = 0;
  /// A process has ended, which the roster knows; the job goes on.
  virtual void ProcessEnded(WorkerId worker) = 0;
  /// Members are lost with their host, or are being stopped before it leaves.
  virtual void MembersLost() {}
  /// The deadline of a process has passed that was not told to end.
  virtual void ExpireProcess(WorkerId /*worker*/) {}
  /// Acts on deadlines of the present generation.
  virtual void ExpireRunning();
  /// The earliest deadline that only this kind of job has.
  virtual std::optional<TimePoint> NextRunning() const = 0;
  /// What the job counts: resets, or restarts after failures.
  virtual uint32_t restarts() const { return resets_.count(); }

  // Facts.
  using JobDriver::On;
  void On(const event::HostsDiscovered& e);
  void On(const event::DiscoveryFailed& e);
  void On(const event::HostReady& e);
  void On(const event::HostLost& e);
  void On(const event::HostCopying& e) { Count(registry_.MarkCopying(e.host)); }
  void On(const event::HostLeaving& e);
  void On(const event::GenerationStopped& e);
  void On(const event::ProcessStarted& e);
  void On(const event::ProcessExited& e);
  void On(const event::ProcessErred& e) {
    Count(roster_.MarkErred(e.worker, e.error, e.age, now_));
  }
  void ExpireOthers() override;

  // Hosts.
  bool HasGathered(int needed);
  bool HasEnough(int needed);
  bool Retarget();
  void EnterShort();

  // Workers.
  void StartAll(bool is_counted = false, const std::string& told = {});
  void Announce(std::vector<HostChange> changes, bool is_counted, const std::string& told = {});
  void NoteFailure(WorkerId worker);
  void StopWorkers(std::span<const WorkerId> workers, Duration grace);
  void StopAll(Duration grace) override;

  const ElasticPolicy policy_;
  HostRegistry registry_;
  WorkerRoster roster_;
  MembershipLog log_;
  Generation started_generation_ = 0;  // The newest one with workers started for it.
  Round round_;
  HostTarget target_;
  ResetCount resets_;
  std::set<int> unstopped_;  // Hosts that were told to stop and have not confirmed their end.
  std::set<int> in_use_;     // Hosts whose agents got workers.
  int doubted_host_ = -1;    // Excluded because its worker aborted, see Pardon(); -1: none.

 private:
  void Advance() override;
  void ExpireState() override;
  void ExpireProcesses();
  void ClearLeavingHosts();
  void Pardon(WorkerId victim);
  void LoseHost(int host, const Status& why);
  void GiveUp(int host, const Status& why);
  void SayWait();
  bool HasWorkers() const override { return !in_use_.empty(); }
  void Finish();

  // Set when enough hosts are ready while others connect.
  std::optional<TimePoint> settle_deadline_;
  std::map<int, TimePoint> clear_at_;     // Leaving hosts: deadline of their workers.
  std::string last_loss_;                 // A host with members, and why; empty: none.
  std::optional<TimePoint> say_wait_at_;  // If the job has not begun by then.
  bool has_discovered_ = false;
  bool is_source_final_ = false;
  std::set<std::string> discovery_failures_;  // Told since the last list.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_DRIVER_H_
