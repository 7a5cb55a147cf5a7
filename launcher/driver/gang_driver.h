// Decides the life of a gang of fixed size: start all, stop all after a failure, maybe start all
// again. Pure: takes facts and a time, returns effects; no I/O, no clock. docs/adr/0005.
#ifndef HVDRAY_LAUNCHER_DRIVER_GANG_DRIVER_H_
#define HVDRAY_LAUNCHER_DRIVER_GANG_DRIVER_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "launcher/driver/culprit.h"
#include "launcher/driver/events.h"
#include "launcher/driver/gang_cause.h"
#include "launcher/driver/gang_roster.h"
#include "launcher/driver/states.h"

namespace hvdray {

struct GangPolicy {
  /// To all agents ready; and again, each generation, to all workers started (anew from the end of
  /// a copy on).
  Duration start_timeout = std::chrono::seconds(30);
  Duration grace = std::chrono::seconds(5);  ///< SIGTERM to SIGKILL.
  Duration timeout = Duration::zero();       ///< Of the whole job; 0: none.
  uint32_t max_restarts = 0;                 ///< Of the whole gang.
  uint16_t master_port = 0;                  ///< 0: the one that rank 0's agent offered.
  /// How long a host may take, beyond the grace, to report that nothing is left; then it is given
  /// up.
  Duration stop_margin = std::chrono::seconds(10);
  /// After the first host whose agent did not start: how long the others have to become ready or be
  /// lost too, so that one message can name all that is wrong.
  Duration settle = std::chrono::seconds(2);
  /// How long the start has been held up by questions to a person, in all; grows while one is open.
  /// Not counted against start_timeout until agents are ready. Empty: never.
  std::function<Duration()> held_up = {};
  /// From the last failure that blames no peer until the others are stopped: who began it may end
  /// after those that it took along.
  Duration moment = std::chrono::milliseconds(300);
  /// The same, from the first failure on, while nobody's error is known to be its own, or somebody
  /// who has shown one still runs.
  Duration longest_moment = std::chrono::seconds(3);
};

/// What others may know of a gang, by value.
struct GangSnapshot {
  struct Worker {
    int rank = 0;
    std::string host;
    uint32_t pid = 0;
    WorkerState state = WorkerState::kPending;
  };
  GangState state = GangState::kConnecting;
  Generation generation = 0;
  uint32_t restarts = 0;
  int hosts_ready = 0;
  int hosts_expected = 0;
  uint64_t stale_events = 0;  ///< Dropped: of an old generation, of nobody, or told twice.
  std::vector<Worker> workers;
};

class GangDriver {
 public:
  /// `ranks` as AssignRanks() gives them, not empty; events name hosts by their host_index. Hosts
  /// without workers are ignored. The job's time counts from `now`. `on_change` hears every change
  /// of state as it happens and must not call back.
  GangDriver(GangPolicy policy, std::vector<RankInfo> ranks, TimePoint now,
             StateChangeFn on_change = {});

  /// Feeds one fact; returns what must be done now, in order. A `now` before the last one counts as
  /// the last one. Deadlines that have passed are acted on whatever the event is. After Finish
  /// nothing comes any more.
  std::vector<Effect> Handle(const Event& event, TimePoint now);

  /// Earliest moment at which Handle(Tick{}) may have work; nullopt: only a new fact can change
  /// anything, or the job has ended.
  std::optional<TimePoint> NextDeadline() const;

  GangState state() const { return state_; }
  Generation generation() const { return roster_.generation(); }
  /// Who failed first in the generation before this one, if that is why there is this one.
  const std::optional<WorkerRecord>& earlier_failure() const { return earlier_failure_; }
  GangSnapshot Snapshot() const;

 private:
  void On(const event::HostReady& e);
  void On(const event::HostLost& e);
  void On(const event::WorkerStarted& e);
  void On(const event::WorkerExited& e);
  void On(const event::WorkerErred& e);
  void On(const event::GenerationStopped& e);
  void On(const event::UserSignal& e);
  void On(const event::ReaderGone& e);
  void On(const event::OutputDamaged& e);
  void On(const event::OutputBlocked& e);
  void On(const event::Copying& e);
  void On(const event::HostSynced& e);
  void On(const event::Tick& e);

  void Advance();
  void AdvanceConnecting();
  void AdvanceRunning();
  void AdvanceFailing();
  void AdvanceStopping();
  void Enter(GangState to);
  void EndBy(Cause cause);
  TimePoint EndOfMoment() const;
  void ChooseCulprit();
  void MarkVictims();
  void StartGeneration();
  void StopGang(Duration grace);
  void Restart();
  void Finish();
  std::optional<TimePoint> StateDeadline() const;
  void ExpireDeadlines();
  void ExpireState();
  void GiveUpHosts();
  std::vector<HostLoss> Losses() const;
  bool WillRestart() const;
  bool IsCauseFinal() const;
  bool IsDrainUnlimited() const;
  void Say(std::string text) { effects_.push_back(effect::Say{std::move(text)}); }

  const GangPolicy policy_;
  const StateChangeFn on_change_;
  const TimePoint begun_;
  GangRoster roster_;
  TimePoint now_;
  GangState state_ = GangState::kConnecting;
  std::optional<TimePoint> state_deadline_;
  std::optional<TimePoint> job_deadline_;
  TimePoint stopping_since_;
  Cause cause_;
  std::optional<WorkerRecord> earlier_failure_;
  int failed_rank_ = -1;  ///< Who failed first in this generation, whatever ended the job.
  Culprit culprit_;       ///< The same with its evidence, once it was weighed.
  TimePoint failing_since_;
  TimePoint last_own_failure_;
  std::vector<int> lost_hosts_;  ///< In the order of their losses.
  Status output_damage_;
  bool is_output_blocked_ = false;
  bool is_timed_out_ = false;
  int signals_ = 0;
  uint32_t restarts_ = 0;
  uint32_t swept_ = 0;
  uint64_t stale_events_ = 0;
  std::vector<Effect> effects_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_GANG_DRIVER_H_
