// SPDX-License-Identifier: Apache-2.0
// The hosts and workers of a gang with their states, and nothing else. Keeps counts, so that no
// fact costs a walk over all workers. Pure; decides nothing.
#ifndef HVDRAY_LAUNCHER_DRIVER_GANG_ROSTER_H_
#define HVDRAY_LAUNCHER_DRIVER_GANG_ROSTER_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "launcher/driver/events.h"
#include "launcher/driver/states.h"

namespace hvdray {

/// Owned by GangDriver. Threads: one.
class GangRoster {
 public:
  struct Host {
    std::string name;
    bool is_ready = false;
    bool is_lost = false;
    bool is_stopped = true;     ///< Nothing of the current generation is there.
    uint16_t offered_port = 0;  ///< For MASTER_PORT of the next generation.
    Status why_lost;
    std::vector<int> ranks;
  };
  struct Worker {
    WorkerRecord record;
    WorkerState state = WorkerState::kPending;
    int host = 0;
    /// Which of the counts below includes it.
    enum class Part : uint8_t { kNone, kOwnFailure, kErring } part = Part::kNone;
  };

  /// `ranks`: from AssignRanks(). Hosts without workers are unknown here. `on_change` is called for
  /// each change of a worker, from within the call that makes it.
  GangRoster(std::vector<RankInfo> ranks, StateChangeFn on_change);

  /// Forgets the workers of the last generation; the new ones are kStarting.
  void BeginGeneration(Generation generation, TimePoint now);

  // Each takes one fact and returns whether it was new: false for hosts and workers that are
  // unknown, of another generation, lost, or reported before.
  bool MarkReady(int host, uint16_t offered_port);
  /// Its living workers become kLost.
  bool MarkLost(int host, const Status& why, TimePoint now);
  bool MarkStarted(const event::WorkerStarted& fact, TimePoint now);
  bool MarkExited(const event::WorkerExited& fact, TimePoint now);
  /// Valid after its end, too.
  bool MarkErred(const event::WorkerErred& fact, TimePoint now);
  /// Workers not reported as ended become kLost: agents report exits first.
  bool MarkStopped(const event::GenerationStopped& fact, TimePoint now);
  /// True if a worker of that host has not been reported as ended. False for an unknown host.
  bool HasLiving(int host) const;

  void MarkVictim(int rank) { workers_[static_cast<size_t>(rank)].record.is_victim = true; }

  /// Moves living workers to kStopping. Returns the hosts whose agents must be told.
  std::vector<int> MarkStopping(TimePoint now);

  Generation generation() const { return generation_; }
  int starting() const { return starting_; }  ///< Workers in kStarting.
  int living() const { return living_; }      ///< Workers in no terminal state.
  /// Workers that failed by themselves and blame no peer.
  int own_failures() const { return own_failures_; }
  /// Running workers that have shown an error of their own and may be about to end.
  int erring() const { return erring_; }
  const std::vector<RankInfo>& ranks() const { return ranks_; }
  const std::vector<Worker>& workers() const { return workers_; }  ///< By rank.
  const std::map<int, Host>& hosts() const { return hosts_; }      ///< By host_index.
  const Host& host(int index) const { return hosts_.at(index); }
  /// Hosts for which `is_wanted` holds, by name, in host order.
  std::vector<std::string> Names(bool (*is_wanted)(const Host&)) const;
  /// Hosts with workers in kStarting.
  std::vector<std::string> NamesOfStarting() const;
  int Count(bool (*is_wanted)(const Host&)) const;
  std::vector<WorkerRecord> Records() const;

 private:
  void Enter(Worker* worker, WorkerState to, TimePoint now);
  void Recount(Worker* worker);
  Worker* FindLiving(Generation generation, int rank);
  void LoseWorkersOf(const Host& host, TimePoint now);

  const std::vector<RankInfo> ranks_;
  const StateChangeFn on_change_;
  Generation generation_ = 0;
  int starting_ = 0;
  int living_ = 0;
  int own_failures_ = 0;
  int erring_ = 0;
  std::map<int, Host> hosts_;
  std::vector<Worker> workers_;
};

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_GANG_ROSTER_H_
