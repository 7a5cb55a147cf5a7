// SPDX-License-Identifier: Apache-2.0
// Starts the workers of one gang, a batch in each turn of the loop: by exec, or by forks of the
// gang's fork server.
//
// What always holds: a worker is pending, in flight at the fork server, or done; each is done once,
// by OnProcess() or OnRefused(). None becomes pending again, so after OnSettled(), or after
// Cancel() with is_settled(), no process is added to the gang.
#ifndef HVDRAY_AGENT_GANG_START_H_
#define HVDRAY_AGENT_GANG_START_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "agent/cgroup.h"
#include "agent/exec_plan.h"
#include "agent/fork_server.h"
#include "agent/gang_environment.h"
#include "agent/spawn.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// Owns processes until OnProcess(). Threads: the loop's.
class GangStart {
 public:
  /// Called from within Start() and Cancel(), and from the loop.
  class Owner {
   public:
    /// Opens the worker's rendezvous and adds its own variables to `environment`. A failure: none
    /// is open.
    virtual ExecFailure Equip(const wire::WorkerSlot& slot,
                              std::vector<std::string>* environment) = 0;
    /// The worker gets no process, after Equip().
    virtual void Unequip(int worker) = 0;
    /// It was told to end by itself or with the gang: it is refused, or its process is unwanted.
    virtual bool IsUnwanted(int worker) const = 0;
    /// See LocalGang::Owner.
    virtual ForkServer* FindServer(const ForkServerPlan& plan) = 0;
    /// Modules can't be imported ahead, for this reason; workers start by exec.
    virtual void OnNoServer(const std::string& why) = 0;
    virtual void OnProcess(int worker, SpawnedProcess process) = 0;
    virtual void OnRefused(int worker, const ExecFailure& failure) = 0;
    /// No worker is pending or in flight any more. Not for a Cancel() that finds none in flight.
    virtual void OnSettled() = 0;

   protected:
    ~Owner() = default;
  };

  /// All of them outlive it.
  GangStart(Loop& loop, const wire::StartGeneration& start, const GangEnvironment& environment,
            Owner& owner);

  /// Processes start in `cgroup`, which outlives this; nullptr: in none. `directory_error`: not 0:
  /// refuses all workers.
  void Start(const Cgroup* cgroup, int directory_error, bool may_preload);
  /// A fork server has settled, maybe the one that this gang waits for.
  void OnWarmed();
  /// Refuses all pending workers. Those in flight answer, and are not let go.
  void Cancel();
  /// Ends the fork server that owes an answer, if there is one.
  void KillServer();
  bool is_settled() const { return next_ == start_.workers.size() && in_flight_.empty(); }

 private:
  /// An equipped worker.
  struct Beginner {
    int name = 0;
    std::vector<std::string> environment;  // its own
    StdinKind stdin_kind = StdinKind::kNull;
    SpawnedProcess process;  // while a fork server makes it
  };

  void PlanServer();
  void StartSome();
  /// nullopt: it was refused.
  std::optional<Beginner> Prepare(const wire::WorkerSlot& slot);
  SpawnRequest RequestFor(const Beginner& beginner) const;
  void Exec(const Beginner& beginner);
  void Fork(ForkServer& server);
  void OnForked(Forked answer);
  void Refuse(const Beginner& beginner, const ExecFailure& failure);
  /// After a batch.
  void Continue();

  Loop& loop_;
  const wire::StartGeneration& start_;
  const GangEnvironment& environment_;
  Owner& owner_;
  const ExecPlan plan_;
  std::optional<ForkServerPlan> server_plan_;  // with modules to preload
  const Cgroup* cgroup_ = nullptr;
  int directory_error_ = 0;
  size_t next_ = 0;                  // Index into start_.workers: the first that is pending.
  std::vector<Beginner> in_flight_;  // Asked of `server_`, without its answer.
  ForkServer* server_ = nullptr;     // Valid while it owes an answer.
  bool is_cancelled_ = false;
  Watch timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_GANG_START_H_
