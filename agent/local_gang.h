// SPDX-License-Identifier: Apache-2.0
// The workers of one StartGeneration on this host, from the first fork until no process of theirs
// is left. Its parts start them (GangStart), write to them (WorkerInputs), read from them
// (OutputPump), reap them (WorkerSet) and say when to signal them (StopSchedule); what is here is
// the order: run, linger or stop, sweep, drain. docs/adr/0003-keeper-and-cleanup.md.
//
// What always holds: the state moves forward only; each requested worker gets one WorkerExited,
// before OnStopped(). Knows its siblings through its owner only.
#ifndef HVDRAY_AGENT_LOCAL_GANG_H_
#define HVDRAY_AGENT_LOCAL_GANG_H_

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agent/cgroup.h"
#include "agent/fork_server.h"
#include "agent/gang_environment.h"
#include "agent/gang_start.h"
#include "agent/orphans.h"
#include "agent/output_pump.h"
#include "agent/stop_schedule.h"
#include "agent/worker_error.h"
#include "agent/worker_inputs.h"
#include "agent/worker_set.h"
#include "base/loop.h"
#include "wire/link.h"
#include "wire/message.h"

namespace hvdray {

/// Owns the processes, their pipes and the cgroup. `rank` and `worker` mean WorkerSlot::name().
/// Threads: the loop's.
class LocalGang final : private WorkerSet::Owner, private GangStart::Owner {
 public:
  /// kLingering: all workers have exited by themselves, but their output pipes or groups are still
  /// in use. kSweeping: kills orphans. kDraining: sends the remaining output.
  enum class State : uint8_t {
    kStarting,
    kRunning,
    kLingering,
    kStopping,
    kSweeping,
    kDraining,
    kStopped,
  };

  /// Identity, directories and limits of one gang.
  struct Options {
    std::string job_id;
    Generation generation = 0;
    std::string cgroup_directory;  ///< Start() creates it; empty: no cgroup.
    int directory_error = 0;       ///< Not 0: no worker may start in its working directory.
    /// After workers exit by themselves, how long their leftover processes may still write: enough
    /// for a `tee` to see its end of file.
    Duration linger{std::chrono::milliseconds(500)};
    /// In an elastic job: kills a worker's leftovers in its group after the linger, even while
    /// other workers of the gang live.
    bool ends_one_by_one = false;
    /// What a worker leaves running when it exits by itself stays: daemons that it started. A
    /// worker that is told to end takes its group with it, as always. No variables of ours.
    bool keeps_processes = false;
    Duration sweep_limit{std::chrono::seconds(5)};
    /// How long after SIGKILL the gang waits for a worker that hangs in the kernel.
    Duration reap_limit{std::chrono::seconds(10)};
    NodeShare node;
  };
  /// What the gang asks and tells, with all its siblings on this host in view.
  class Owner {
   public:
    /// Before the fork: opens the worker's rendezvous and returns its port.
    virtual Result<uint16_t> OpenRelay(const LocalGang& gang, const wire::WorkerSlot& slot) = 0;
    /// The worker's process was reaped or not started.
    virtual void CloseRelay(int worker) = 0;
    /// The fork server of that plan, started if there is none; OnWarmed() is called when it has
    /// settled. nullptr: workers start by exec. It lives at least until it has answered.
    virtual ForkServer* FindServer(const ForkServerPlan& plan, Generation generation,
                                   Duration limit) = 0;
    /// Whether a pid is a worker of any gang, or the fork server, so not an orphan.
    virtual bool IsOurs(pid_t pid) const = 0;
    /// Whether sibling gangs are alive, so that orphans may be theirs.
    virtual bool HasSiblings() const = 0;
    /// Once, last, from the loop: no process is left and all output is sent; `swept`: orphans
    /// killed. May destroy the gang.
    virtual void OnStopped(LocalGang& gang, uint32_t swept) = 0;

   protected:
    ~Owner() = default;
  };
  /// Sends WorkerStarted, WorkerExited (once for every requested worker), Output and Credit to
  /// `link`. Loop, link and owner outlive the gang. The destructor kills living workers, without
  /// grace.
  LocalGang(Loop& loop, wire::Link& link, wire::StartGeneration start, Options options,
            Owner& owner);
  ~LocalGang();

  /// Starts the workers in small batches on the loop.
  void Start();
  /// A fork server has settled, maybe the one that this gang waits for.
  void OnWarmed() { beginning_.OnWarmed(); }
  /// Ends all groups as StopSchedule says. May be repeated.
  void Stop(Duration grace);
  /// The launcher ends it: by Stop(), or by a SIGINT of the user before that.
  bool is_ending() const { return ending_.is_told_to_end(); }
  /// Sends SIGTERM to the groups of these workers, and SIGKILL after `grace`; ignores workers of
  /// other gangs.
  void StopWorkers(std::span<const int> workers, Duration grace);
  /// Signals the group of one worker, or all groups (-1). Ignores invalid signal numbers.
  void Signal(int rank, int signo);
  WorkerInputs& inputs() { return inputs_; }
  OutputPump& output() { return pump_; }

  bool Has(int worker) const { return names_.contains(worker); }
  const WorkerSet& workers() const { return workers_; }
  Generation generation() const { return options_.generation; }
  const std::string& host_name() const { return start_.host_name; }
  State state() const { return state_; }

 private:
  void Enter(State next);
  void Send(wire::Body body) { link_.Send({options_.generation, std::move(body)}); }
  // GangStart::Owner
  ExecFailure Equip(const wire::WorkerSlot& slot, std::vector<std::string>* environment) override;
  void Unequip(int worker) override { owner_.CloseRelay(worker); }
  bool IsUnwanted(int worker) const override {
    return ending_.has_begun() || told_to_end_.contains(worker);
  }
  ForkServer* FindServer(const ForkServerPlan& plan) override;
  void OnNoServer(const std::string& why) override { Send(wire::Warmed{.why = why}); }
  void OnProcess(int worker, SpawnedProcess process) override;
  void OnRefused(int worker, const ExecFailure& failure) override;
  void OnSettled() override;
  // WorkerSet::Owner
  void OnStarted(int rank, pid_t pid) override;
  void OnExited(int rank, const wire::ExitStatus& status) override;

  wire::WorkerExited ExitOf(int rank, const wire::ExitStatus& status, bool was_stopping);
  bool IsToldToEnd(int worker) const {
    return ending_.is_told_to_end() || told_to_end_.contains(worker);
  }
  void Schedule(Duration delay = Duration::zero());
  void Advance();  // For Schedule() alone: OnStopped() may destroy the gang.
  void AdvanceLingering();
  void AdvanceStopping();
  void SendDueSignal();
  void SignalToEnd(int signo);
  void EndGroupAfter(int worker, Duration pause);
  void GiveUpOnUnreaped();
  void Sweep();

  Loop& loop_;
  wire::Link& link_;
  const wire::StartGeneration start_;
  std::set<int> names_;           // All requested workers.
  std::set<int> told_to_end_;     // By StopWorkers().
  std::map<int, Watch> endings_;  // Worker -> timer of its group's SIGKILL.
  const Options options_;
  Owner& owner_;
  const GangEnvironment environment_;
  std::optional<Cgroup> cgroup_;
  std::optional<OomWatch> oom_watch_;
  WorkerSet workers_;
  OutputPump pump_;
  WorkerInputs inputs_;
  std::map<int, ErrorFile> error_files_;
  GangStart beginning_;
  StopSchedule ending_;
  std::optional<Sweeper> sweeper_;
  State state_ = State::kStarting;
  TimePoint groups_until_{};  // The end of the longest grace of StopWorkers().
  TimePoint linger_until_{};
  Duration poll_pause_{};
  uint32_t swept_ = 0;
  Watch advance_timer_;
  TimePoint advance_at_{};
  Watch reap_timer_;
};

std::string_view Name(LocalGang::State state);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_LOCAL_GANG_H_
