// SPDX-License-Identifier: Apache-2.0
// Decides the life of a gang of fixed size: start all, stop all after a failure, maybe restart all.
// Pure: takes facts and a time, returns effects; no I/O, no clock. docs/adr/0005-gang-driver.md.
#ifndef HVDRAY_LAUNCHER_DRIVER_GANG_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_GANG_DRIVER_H_

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launcher/driver/cause.h"
#include "launcher/driver/events.h"
#include "launcher/driver/job_driver.h"
#include "launcher/driver/states.h"
#include "launcher/driver/verdict.h"
#include "launcher/driver/worker_roster.h"

namespace hvdray {

/// Limits and settings of a gang, from the job's options.
struct GangPolicy {
  /// Limit until all agents are ready; then, in each generation, until all workers have started
  /// (counted from the end of a --sync copy).
  Duration start_timeout = std::chrono::seconds(30);
  /// How much longer workers may take to start, because their modules are imported first.
  Duration preload_limit = Duration::zero();
  Duration grace = std::chrono::seconds(30);  ///< From SIGTERM to SIGKILL.
  Duration timeout = Duration::zero();        ///< Of the whole job; 0: no limit.
  uint32_t max_restarts = 0;                  ///< Of the whole gang.
  uint16_t master_port = 0;                   ///< 0: use the one that rank 0's agent offers.
  Generation last_generation = 0;             ///< Of former gangs on these agents; 0: none.
  /// How long beyond `grace` a host may take to report that nothing is left before it is given up.
  Duration stop_margin = std::chrono::seconds(10);
  /// After the first agent failed to start: how long the other hosts have to become ready or fail
  /// too, so that one message can name all failures.
  Duration settle = std::chrono::seconds(2);
  /// Total time that the start waited for answers of the user (passwords); grows while a question
  /// is open. Not counted against start_timeout until agents are ready. Empty: never.
  std::function<Duration()> held_up = {};
  /// From the last failure that blames no peer until the others are stopped: the culprit may exit
  /// after the workers that it took down.
  Duration moment = std::chrono::milliseconds(300);
  /// The same, counted from the first failure, while no failed worker has an error of its own, or
  /// while a worker that has shown one still runs.
  Duration longest_moment = std::chrono::seconds(3);
};

/// The state machine of a gang. Owns the roster of its generation. Always: a generation starts only
/// once every host with workers is ready and nothing of the one before is left; a failure or a lost
/// host stops all of it; the first cause ends the job unless a stricter one comes. Never blocks.
/// Threads: one caller at a time.
class GangDriver final : public JobDriver<GangState, Effect> {
 public:
  /// `ranks`: from AssignRanks(), not empty; events name hosts by their host_index. Hosts without
  /// workers are ignored. --timeout counts from `now`. `on_change` is called for every change of
  /// state, from within Handle(), and must not call back.
  GangDriver(GangPolicy policy, std::vector<RankInfo> ranks, TimePoint now,
             StateChangeFn on_change = {});

  /// Feeds one fact; returns what must be done now, in order. A `now` before the last one counts as
  /// the last one. Expired deadlines take effect with any event. Returns nothing after Finish.
  std::vector<Effect> Handle(const Event& event, TimePoint now);

  /// Earliest time at which Handle(Tick{}) may have work; nullopt: only a new fact can change
  /// anything, or the job has ended.
  std::optional<TimePoint> NextDeadline() const;

  /// The first failure of the previous generation, if that caused this restart.
  const std::optional<WorkerRecord>& earlier_failure() const { return earlier_failure_; }
  /// The workers of this generation, by rank; empty before the first. Valid until the next
  /// Handle().
  const WorkerRoster& roster() const { return roster_; }

 private:
  struct Host {
    std::string name;
    bool is_ready = false;
    bool is_lost = false;
    bool is_stopped = true;     ///< Nothing of the current generation is there.
    uint16_t offered_port = 0;  ///< For MASTER_PORT of the next generation.
    Status why_lost;
    bool is_awaited() const { return !is_ready && !is_lost; }
    bool is_unstopped() const { return !is_stopped; }
  };
  using HostTest = bool (Host::*)() const;

  using JobDriver::On;
  void On(const event::HostReady& e);
  void On(const event::HostLost& e);
  void On(const event::WorkerStarted& e);
  void On(const event::WorkerExited& e);
  void On(const event::WorkerErred& e);
  void On(const event::GenerationStopped& e);
  void On(const event::Copying& e);
  void On(const event::HostSynced& /*e*/) {}

  void Advance() override;
  void AdvanceConnecting();
  void AdvanceRunning();
  void AdvanceFailing();
  void AdvanceStopping();
  TimePoint EndOfMoment() const;
  void ChooseCulprit();
  void MarkVictims();
  void StartGeneration();
  void StopAll(Duration grace) override;
  bool HasWorkers() const override { return generation_ > policy_.last_generation; }
  void Restart();
  void Finish();
  std::optional<TimePoint> StateDeadline() const override;
  void ExpireState() override;
  std::vector<HostLoss> Losses() const;
  bool WillRestart() const override;

  WorkerId NumberOf(Generation generation, int rank) const;
  const WorkerRecord& RecordOf(int rank) const {
    return roster_.Of(static_cast<WorkerId>(rank)).record;
  }
  std::vector<WorkerRecord> Records() const;
  /// False: no host of this job, or lost already.
  bool Lose(int host, const Status& why);
  bool IsAny(HostTest is_wanted) const;
  /// Hosts for which `is_wanted` holds, by name, in host order.
  std::vector<std::string> Names(HostTest is_wanted) const;
  std::vector<std::string> NamesOfStarting() const;

  const GangPolicy policy_;
  const std::vector<RankInfo> ranks_;
  std::map<int, Host> hosts_;  ///< By host_index; only those with workers.
  WorkerRoster roster_;        ///< Of this generation, by rank; empty before the first.
  std::optional<WorkerRecord> earlier_failure_;
  int failed_rank_ = -1;  ///< First failure of this generation, whatever ended the job.
  Culprit culprit_;       ///< That worker with its evidence, once weighed.
  TimePoint failing_since_;
  TimePoint last_own_failure_;
  std::vector<int> lost_hosts_;  ///< In the order of their losses.
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_GANG_DRIVER_H_
