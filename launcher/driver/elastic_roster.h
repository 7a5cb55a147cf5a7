// The processes of an elastic job: who lives on which slot, in which role, and who has come so far.
// Keeps count, so that no fact costs a walk over all. Pure; decides nothing.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROSTER_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROSTER_H_

#include <span>
#include <vector>

#include "launcher/driver/elastic_events.h"
#include "launcher/driver/states.h"

namespace hvdray {

class ElasticRoster {
 public:
  enum class Role : uint8_t {
    kNewcomer,  ///< Started for a generation that is not published yet.
    kMember,    ///< Of the published generation.
    kRemoved,   ///< Was told that it has no rank any more, and ends by itself.
  };
  struct Process {
    WorkerRecord record;
    RankInfo place;  ///< In the generation that it was started for or last released into.
    Role role = Role::kNewcomer;
    WorkerState state = WorkerState::kPending;
    bool has_arrived = false;     ///< A newcomer waits at the gate.
    bool has_met = false;         ///< A member waits for the others in hvd.init(), or has.
    bool has_connected = false;   ///< A member is through with hvd.init().
    bool is_parked = false;       ///< A member waits for its next rank.
    bool is_registered = false;   ///< It takes notices.
    bool is_told_to_end = false;  ///< By us: its exit is no failure.
    TimePoint limit{};            ///< By when it must have arrived, left or ended.
    int host() const { return place.host_index; }
  };
  /// All of processes that live.
  struct Counts {
    int living = 0;
    int members = 0;
    int staying = 0;    ///< Members that were not told to end.
    int parked = 0;     ///< Members.
    int unsettled = 0;  ///< Members and removed ones that are not parked.
    int newcomers = 0;  ///< That were not told to end.
    int arrived = 0;    ///< Of those.
    int strays = 0;     ///< Newcomers that were told to end.
  };

  /// `on_change` hears each change of a process; StateChange.rank is the rank it was started with.
  explicit ElasticRoster(StateChangeFn on_change) : on_change_(std::move(on_change)) {}

  /// The slot must be free. Starts in kStarting.
  WorkerId Add(const RankInfo& place, Generation generation, Role role, TimePoint now);
  /// nullptr unless it lives.
  const Process* Living(WorkerId worker) const;
  /// Whatever became of it; `worker` was given by Add().
  const Process& Of(WorkerId worker) const { return processes_[worker]; }
  /// Who lives on that slot, or kNoWorker.
  WorkerId On(int host, int local_rank) const;
  /// By local rank.
  std::vector<WorkerId> LivingOn(int host) const;
  int CountLivingOn(int host) const;
  const Counts& counts() const { return counts_; }

  // Each takes a fact about a living process and says whether it was news.
  bool MarkStarted(WorkerId worker, uint32_t pid, TimePoint now);
  bool MarkArrived(WorkerId worker);
  bool MarkMet(WorkerId worker);
  bool MarkConnected(WorkerId worker);
  bool MarkParked(WorkerId worker);
  bool MarkRegistered(WorkerId worker);
  bool MarkToldToEnd(WorkerId worker, TimePoint now);
  bool MarkEnded(WorkerId worker, const wire::ExitStatus& status, TimePoint now);
  /// Also after its end.
  bool MarkErred(WorkerId worker, const LastError& error, std::optional<Duration> age,
                 TimePoint now);
  /// With its host; how it ended is not known.
  bool MarkLost(WorkerId worker, TimePoint now);
  void MarkVictim(WorkerId worker) { processes_[worker].record.is_victim = true; }
  void SetLimit(WorkerId worker, TimePoint limit) { processes_[worker].limit = limit; }

  /// A living process is in the published generation from now on, at that place.
  void Release(WorkerId worker, const RankInfo& place, Generation generation);
  /// A parked member has no place in the published generation.
  void Remove(WorkerId worker);
  std::vector<WorkerRecord> Records(std::span<const WorkerId> workers) const;

 private:
  Process* Find(WorkerId worker);
  void Enter(WorkerId worker, WorkerState to, TimePoint now);
  void End(WorkerId worker, WorkerState to, TimePoint now);
  /// Adds (+1) or takes out (-1) what the process contributes to the counts.
  void Tally(const Process& process, int sign);

  const StateChangeFn on_change_;
  std::vector<Process> processes_;            // By number.
  std::vector<std::vector<WorkerId>> slots_;  // By host and local rank.
  Counts counts_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_ROSTER_H_
