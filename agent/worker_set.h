// SPDX-License-Identifier: Apache-2.0
// The worker processes of one gang on this host: watches, signals and reaps them. No other code may
// wait for them. Decides nothing: LocalGang decides when to stop.
#ifndef HVDRAY_AGENT_WORKER_SET_H_
#define HVDRAY_AGENT_WORKER_SET_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <vector>

#include "agent/spawn.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Owns the processes. The destructor sends SIGKILL to all groups and waits up to 1 s for each
/// worker. Threads: the loop's.
class WorkerSet {
 public:
  /// Pipes of a started worker, for the pumps.
  struct Pipes {
    UniqueFd stdin_pipe;  ///< Invalid: its stdin is /dev/null.
    UniqueFd stdout_pipe;
    UniqueFd stderr_pipe;
    UniqueFd channel;  ///< Invalid: it has none.
  };

  /// Told from the loop or from within ReapDead().
  class Owner {
   public:
    /// exec succeeded; always before OnExited().
    virtual void OnStarted(int rank, pid_t pid) = 0;
    /// Reaped; the status tells whether exec failed. Once per worker.
    virtual void OnExited(int rank, const wire::ExitStatus& status) = 0;

   protected:
    ~Owner() = default;
  };
  /// Loop and owner outlive it.
  WorkerSet(Loop& loop, Owner& owner) : loop_(loop), owner_(owner) {}
  ~WorkerSet();
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  /// A worker's process, new in this set.
  Pipes Take(int rank, SpawnedProcess child);

  /// Signals the whole process group of a worker, even after its leader was reaped, but never pid 0
  /// or 1, nor a group whose number may have been reused. Ignores unknown ranks and empty groups.
  void SignalGroup(int rank, int signo);
  void SignalAllGroups(int signo);

  /// The group of a reaped worker is no longer ours: no signal reaches what is left in it.
  void LeaveGroup(int rank);

  /// Reaps workers that are already dead, so that their exit is not blamed on what follows.
  void ReapDead();
  /// Not yet reaped.
  size_t live_count() const { return live_.size(); }
  bool IsLive(pid_t pid) const { return live_.contains(pid); }
  std::vector<int> LiveRanks() const;
  /// Calls `visit(rank, pid, pidfd)` for each worker that is not reaped; the pidfd stays ours.
  void ForEachLive(const std::function<void(int, pid_t, int)>& visit) const;
  /// Whether any group has a live process, such as a child that outlived its leader.
  bool HasLivingGroup();

 private:
  struct Worker {
    pid_t pid = -1;
    UniqueFd pidfd;
    UniqueFd report;
    Watch exit_watch;
    Watch report_watch;
    ExecFailure failure;
    bool is_reaped = false;
    bool is_group_gone = false;
  };

  void OnReport(int rank);
  void OnExit(int rank);
  /// False: the group is empty, or its number may have been reused.
  bool IsGroupOurs(Worker& worker);

  Loop& loop_;
  Owner& owner_;
  std::map<int, Worker> workers_;
  std::map<pid_t, int> live_;  // pid -> rank
};

/// From waitid(2)'s si_code and si_status. Leaves is_oom false. Pure.
wire::ExitStatus DecodeExit(int code, int value);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_WORKER_SET_H_
