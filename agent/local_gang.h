// The workers that one order has started on this host, from the first fork until nothing of them is
// left: start, output, stop with grace, sweep, drain. Talks to nobody but through its handlers.
#ifndef HVDRAY_AGENT_LOCAL_GANG_H_
#define HVDRAY_AGENT_LOCAL_GANG_H_

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "agent/cgroup.h"
#include "agent/error_clock.h"
#include "agent/error_file.h"
#include "agent/gang_environment.h"
#include "agent/output_pump.h"
#include "agent/stdin_pump.h"
#include "agent/strays.h"
#include "agent/worker_set.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// kLingering: all workers have ended by themselves and something still holds their output open.
/// kSweeping: what outlived them is killed. kDraining: what they wrote is still on the way.
enum class LocalGangState : uint8_t {
  kStarting,
  kRunning,
  kLingering,
  kStopping,
  kSweeping,
  kDraining,
  kStopped,
};
std::string_view NameOf(LocalGangState state);

struct LocalGangOptions {
  std::string job_id;
  Generation generation = 0;
  std::string cgroup_folder;  ///< To be made for this generation; empty: there is none to be had.
  /// How long what outlives the workers may still write when nobody has asked for a stop: enough
  /// for a `tee` to see its end of file.
  Duration linger{std::chrono::milliseconds(500)};
  /// Of an elastic job: what a worker leaves behind in its group is killed after the linger even
  /// while others of the gang live on.
  bool ends_one_by_one = false;
  Duration sweep_limit{std::chrono::seconds(5)};
  /// From SIGKILL until a worker that can't be reaped (it hangs in the kernel) is given up.
  Duration reap_limit{std::chrono::seconds(10)};
  NodeShare node;
};

/// Threads: the loop's.
class LocalGang {
 public:
  struct Handlers {
    /// WorkerStarted, WorkerExited (once for every worker that was asked for), Output, Credit.
    std::function<void(wire::Body)> send;
    std::function<bool()> has_output_room;
    /// Before the worker is forked: its rendezvous port.
    std::function<Result<uint16_t>(const wire::WorkerSlot&)> open_relay;
    std::function<void(int rank)> close_relay;  ///< The process has been reaped.
    /// Workers of other gangs on this host: never to be taken for strays. Empty: there are none.
    std::function<bool(pid_t)> is_elsewhere;
    /// Other gangs are alive, so a child of ours may be theirs. Empty: never.
    std::function<bool()> has_company;
    /// Once, last: nothing is left and all output has been handed to `send`. May destroy the gang.
    std::function<void(uint32_t swept)> on_stopped;
  };
  LocalGang(Loop& loop, wire::StartGeneration start, LocalGangOptions options, Handlers handlers);
  ~LocalGang();

  /// Forks the workers in small batches on the loop.
  void Start();
  /// SIGTERM to all groups, after `grace` SIGKILL. If all have been sent SIGINT before, that gets a
  /// grace of its own first. May be repeated: only a shorter grace counts, and that of SIGINT is
  /// over.
  void Stop(Duration grace);
  /// The same for these alone; others of other gangs among them are passed over.
  void StopWorkers(std::span<const int> workers, Duration grace);
  /// To the group of one worker, or of all (-1). A signal number that does not exist is ignored.
  void Signal(int rank, int signo);
  void AddOutputCredit(int rank, uint32_t bytes) { pump_.AddCredit(rank, bytes); }
  void OnOutputRoom() { pump_.OnRoom(); }
  /// The launcher is gone: output is read and dropped from now on.
  void DiscardOutput() { pump_.Discard(); }
  /// Errors: kProtocolError, see StdinPump. For a rank without a stdin pipe it is swallowed.
  Status WriteStdin(int rank, std::string bytes, bool is_end);

  bool Has(int worker) const { return names_.contains(worker); }
  bool IsLive(pid_t pid) const { return workers_.IsLive(pid); }
  const WorkerSet& workers() const { return workers_; }
  Generation generation() const { return options_.generation; }
  LocalGangState state() const { return state_; }

 private:
  void Enter(LocalGangState next);
  void StartSome();
  void StartOne(const wire::WorkerSlot& slot);
  bool IsToldToEnd(int rank) const;
  void OnExited(int rank, wire::ExitStatus status);
  /// Makes its error file; empty: it gets none.
  std::string ErrorFileOf(int name);
  wire::WorkerExited ExitOf(int rank, const wire::ExitStatus& status, bool was_stopping);
  void FailToStart(int rank, wire::ExecStage stage, int error);
  void CancelStarts();
  void CancelStartsOf(std::span<const int> workers);
  /// Looks again soon, from the loop: never from within a callback of a part of ours.
  void Poke(Duration delay = Duration::zero());
  void Advance();
  void AdvanceLingering();
  void AdvanceStopping();
  void SignalToEnd(int signo);
  void Sweep();
  bool HasCompany() const { return handlers_.has_company && handlers_.has_company(); }
  /// Of this gang or of another one.
  bool IsWorker(pid_t pid) const;
  void EndGroupAfter(int worker, Duration pause);
  void GiveUpOnUnreaped();
  int PipeBytes() const;

  Loop& loop_;
  const wire::StartGeneration start_;
  std::set<int> names_;           // of all that were asked for
  std::set<int> told_to_end_;     // by StopWorkers
  std::set<int> cancelled_;       // of those, the ones that were not forked yet
  std::map<int, Watch> endings_;  // SIGKILL of single groups
  const LocalGangOptions options_;
  Handlers handlers_;
  const GangEnvironment environment_;
  const ExecPlan plan_;
  std::optional<Cgroup> cgroup_;
  std::optional<OomWatch> oom_watch_;
  WorkerSet workers_;
  OutputPump pump_;
  std::map<int, StdinPump> stdin_pumps_;
  std::map<int, ErrorClock> error_clocks_;
  std::map<int, ErrorFile> error_files_;
  std::optional<Sweeper> sweeper_;
  LocalGangState state_ = LocalGangState::kStarting;
  size_t next_start_ = 0;        // index into start_.workers
  bool is_interrupted_ = false;  // all were sent SIGINT
  bool is_killed_ = false;
  std::optional<TimePoint> kill_at_;  // set once a stop was asked for
  std::optional<TimePoint> term_at_;  // set while SIGINT has its grace
  TimePoint groups_until_{};  // what outlives workers that were told to end may live so long
  TimePoint linger_until_{};
  Duration poll_pause_{};
  uint32_t swept_ = 0;
  Watch start_timer_;
  Watch poke_timer_;
  TimePoint poke_at_{};
  Watch reap_timer_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_LOCAL_GANG_H_
