// SPDX-License-Identifier: Apache-2.0
// The workers of one StartGeneration on this host, from the first fork until no process of theirs
// is left: start, output, stop with grace, sweep, drain. Knows its siblings through its owner only.
// docs/adr/0003-keeper-and-cleanup.md has the order of a stop.
#ifndef HVDRAY_AGENT_LOCAL_GANG_H_
#define HVDRAY_AGENT_LOCAL_GANG_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "agent/cgroup.h"
#include "agent/fork_server.h"
#include "agent/gang_environment.h"
#include "agent/object_store.h"
#include "agent/orphans.h"
#include "agent/output_pump.h"
#include "agent/stdin_pump.h"
#include "agent/worker_error.h"
#include "agent/worker_set.h"
#include "base/loop.h"
#include "wire/link.h"
#include "wire/message.h"

namespace hvdray {

/// Owns the processes, their pipes and the cgroup. `rank` and `worker` mean WorkerSlot::name().
/// Threads: the loop's.
class LocalGang final : private WorkerSet::Owner {
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

  /// Forks the workers in small batches on the loop.
  void Start();
  /// A fork server has settled, maybe the one that this gang waits for.
  void OnWarmed();
  /// Sends SIGTERM to all groups, and SIGKILL after `grace`. If all groups were sent SIGINT before,
  /// SIGINT first gets a grace of its own. May be repeated: only a shorter grace counts, and it
  /// ends that of SIGINT.
  void Stop(Duration grace);
  /// The launcher ends it: by Stop(), or by a SIGINT of the user before that.
  bool is_ending() const { return kill_at_.has_value() || is_interrupted_; }
  /// The same for these workers alone; ignores workers of other gangs.
  void StopWorkers(std::span<const int> workers, Duration grace);
  /// Signals the group of one worker, or all groups (-1). Ignores invalid signal numbers.
  void Signal(int rank, int signo);
  void AddOutputCredit(const wire::Credit& credit) {
    pump_.AddCredit(credit.rank, credit.stream, credit.bytes);
  }
  void OnOutputRoom() { pump_.OnRoom(); }
  /// The launcher is gone: reads and drops all further output.
  void DiscardOutput() { pump_.Discard(); }
  /// For its stdin or its channel. Without that, drops the bytes and returns their credit. Errors:
  /// kProtocolError, see StdinPump.
  Status Write(wire::Stdin input);
  /// Gives an object to a worker, behind what was written to its channel.
  void Give(int rank, int64_t object, ObjectStore::View view);

  bool Has(int worker) const { return names_.contains(worker); }
  bool IsLive(pid_t pid) const { return workers_.IsLive(pid); }
  const WorkerSet& workers() const { return workers_; }
  Generation generation() const { return options_.generation; }
  const std::string& host_name() const { return start_.host_name; }
  State state() const { return state_; }

 private:
  void Enter(State next);
  void Send(wire::Body body) { link_.Send({options_.generation, std::move(body)}); }
  void PlanServer();
  void MakePumps();
  void ClosePumps(int name);
  void StartSome();
  /// Opens the worker's rendezvous. nullopt: it failed to start, or was told to end before.
  struct Beginner {
    int name = 0;
    std::vector<std::string> environment;  // its own
    StdinKind stdin_kind = StdinKind::kNull;
    SpawnedProcess process;  // while a fork server makes it
  };
  std::optional<Beginner> Prepare(const wire::WorkerSlot& slot);
  SpawnRequest RequestFor(const Beginner& beginner) const;
  void Exec(const Beginner& beginner);
  void ForkSome(ForkServer& server);
  void OnForked(Forked answer);
  void AddPumps(int name, WorkerSet::Pipes pipes);
  void FailToBegin(int name, const ExecFailure& failure);
  void EndStart();
  bool IsToldToEnd(int rank) const;
  void OnStarted(int rank, pid_t pid) override;
  void OnExited(int rank, const wire::ExitStatus& status) override;
  /// Creates the worker's error file and returns its path; empty: no such file.
  std::string ErrorFileOf(int name);
  wire::WorkerExited ExitOf(int rank, const wire::ExitStatus& status, bool was_stopping);
  void FailToStart(int rank, wire::ExecStage stage, int error);
  void CancelStarts();
  void CancelStartsOf(std::span<const int> workers);
  void Schedule(Duration delay = Duration::zero());
  void Advance();  // For Schedule() alone: OnStopped() may destroy the gang.
  void AdvanceLingering();
  void AdvanceStopping();
  void AddPump(std::map<int, StdinPump>& pumps, int name, wire::StreamId stream, UniqueFd fd);
  void SignalToEnd(int signo);
  void Sweep();
  void EndGroupAfter(int worker, Duration pause);
  void GiveUpOnUnreaped();
  int PipeBytes() const;

  Loop& loop_;
  wire::Link& link_;
  const wire::StartGeneration start_;
  std::set<int> names_;           // All requested workers.
  std::set<int> told_to_end_;     // By StopWorkers().
  std::set<int> cancelled_;       // Those of told_to_end_ that were not forked yet.
  std::map<int, Watch> endings_;  // Worker -> timer of its group's SIGKILL.
  const Options options_;
  Owner& owner_;
  const GangEnvironment environment_;
  const ExecPlan plan_;
  std::optional<ForkServerPlan> server_plan_;  // with modules to preload
  std::optional<Cgroup> cgroup_;
  std::optional<OomWatch> oom_watch_;
  WorkerSet workers_;
  OutputPump pump_;
  std::map<int, StdinPump> stdin_pumps_;
  std::map<int, StdinPump> channel_pumps_;
  std::map<int, ErrorFile> error_files_;
  std::optional<Sweeper> sweeper_;
  State state_ = State::kStarting;
  size_t next_start_ = 0;          // Index into start_.workers.
  std::vector<Beginner> forking_;  // Asked of `server_`, without its answer.
  ForkServer* server_ = nullptr;   // Valid while it owes us an answer.
  bool is_interrupted_ = false;    // All groups were sent SIGINT.
  bool is_killed_ = false;
  std::optional<TimePoint> kill_at_;  // Set by Stop().
  std::optional<TimePoint> term_at_;  // Set during SIGINT's grace.
  TimePoint groups_until_{};          // The end of the longest grace of StopWorkers().
  TimePoint linger_until_{};
  Duration poll_pause_{};
  uint32_t swept_ = 0;
  Watch start_timer_;
  Watch advance_timer_;
  TimePoint advance_at_{};
  Watch reap_timer_;
};

std::string_view Name(LocalGang::State state);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_LOCAL_GANG_H_
