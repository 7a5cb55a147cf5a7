// The worker processes of one generation on this host: starts, signals and reaps them. Nobody else
// may wait for them. Decides nothing: when to stop is the gang's affair.
#ifndef HVDRAY_AGENT_WORKER_SET_H_
#define HVDRAY_AGENT_WORKER_SET_H_

#include <sys/types.h>

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "agent/spawn.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Pipes of a started worker, for the pumps.
struct WorkerPipes {
  UniqueFd stdin_pipe;  ///< Invalid: its stdin is /dev/null.
  UniqueFd stdout_pipe;
  UniqueFd stderr_pipe;
};

/// Threads: the loop's. Destroying it kills what is left with SIGKILL and waits a little for it.
class WorkerSet {
 public:
  struct Handlers {
    std::function<void(int rank, pid_t pid)> on_started;  ///< exec worked; always before on_exited.
    /// Reaped, or could not exec. Once a worker.
    std::function<void(int rank, const wire::ExitStatus&)> on_exited;
  };
  WorkerSet(Loop& loop, Handlers handlers);
  ~WorkerSet();
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  /// Forks the worker; its events come through the loop, never from within this call. nullopt:
  /// there is no process, `failure` says why, and no event will come.
  std::optional<WorkerPipes> Start(int rank, const SpawnRequest& request, ExecFailure& failure);

  /// Signals the whole process group of a worker, also after its leader has been reaped. Guarded as
  /// style P5 says. A rank that is unknown or has nothing left is no error.
  void SignalGroup(int rank, int signo);
  void SignalAllGroups(int signo);

  /// Reaps at once those that are dead already, so that what comes next is not taken for the cause.
  void ReapDead();
  /// Not yet reaped.
  size_t live_count() const { return live_.size(); }
  bool IsLive(pid_t pid) const { return live_.contains(pid); }
  std::vector<int> LiveRanks() const;
  /// `visit(rank, pid, pidfd)` for each that is not reaped; the pidfd stays ours.
  void ForEachLive(const std::function<void(int, pid_t, int)>& visit) const;
  /// Some process of a worker's group is alive, be it a child that outlived its leader.
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
  /// false: nobody is left in the group, or its number may belong to a stranger by now.
  bool IsGroupOurs(Worker& worker);

  Loop& loop_;
  Handlers handlers_;
  std::map<int, Worker> workers_;
  std::map<pid_t, int> live_;  // pid -> rank
};

/// From waitid's fields si_code and si_status. is_oom is not decided here.
wire::ExitStatus DecodeExit(int code, int value);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_WORKER_SET_H_
