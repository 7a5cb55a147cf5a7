// SPDX-License-Identifier: Apache-2.0
// A warm start on this host: a process of the workers' own Python that has imported the modules of
// --preload, and that forks workers when told (python/fork_server.py). docs/preload.md.
//
// The two talk over a socketpair. Ours: a byte that carries descriptors, the first of which is a
// memfd of texts, each ended by a NUL; lists have their length before them. First, without further
// descriptors: our pid, whether there is a channel, the command, the program in it, the modules.
// Then, for each request: the number of workers, whether there is a cgroup, whether there is a
// channel, the shared variables, and each worker's own; with the gate, cgroup.procs, and for each
// worker its stdin, stdout, stderr, report and channel. Its answers are lines: "importing MODULE",
// "cold REASON", "warm MILLISECONDS MODULE...", "forked PID...", with -ERRNO for a failed fork.
#ifndef HVDRAY_AGENT_FORK_SERVER_H_
#define HVDRAY_AGENT_FORK_SERVER_H_

#include <sys/resource.h>
#include <sys/types.h>

#include <array>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "agent/exec_plan.h"
#include "agent/spawn.h"
#include "base/command_words.h"
#include "base/loop.h"
#include "wire/message.h"

namespace hvdray {

/// What a server is for; the workers of another plan can't be forked from it.
struct ForkServerPlan {
  PythonCall call;
  std::vector<std::string> command;
  std::string working_directory;
  std::vector<std::string> environment;  ///< Less what differs from worker to worker.
  std::vector<std::string> modules;
  bool has_channel = false;
  /// StartGeneration::threads as libraries read them at import. Gangs of another size may be forked
  /// from it, too: a new import would cost more than the wrong number of threads.
  std::vector<std::string> threads = {};
  bool operator==(const ForkServerPlan& other) const {
    const auto key = [](const ForkServerPlan& plan) {
      return std::tie(plan.call, plan.command, plan.working_directory, plan.environment,
                      plan.modules, plan.has_channel);
    };
    return key(*this) == key(other);
  }
};

/// `start`: with modules to preload. `shared`: the environment that its workers share; `own`: that
/// of one of them, for what Python itself reads. Errors: as ReadPythonCall().
Result<ForkServerPlan> PlanForkServer(const wire::StartGeneration& start,
                                      const std::vector<std::string>& shared,
                                      const std::vector<std::string>& own);

/// The server's command line: as long as a worker's, so that a worker can show its own in its
/// place. Pure.
std::vector<std::string> ServerCommand(const ForkServerPlan& plan);

/// The program of such a process.
std::string_view ForkServerText();

/// Workers to fork at once, at most kMaxForks.
struct ForkRequest {
  std::vector<std::string> shared_environment;
  std::vector<std::vector<std::string>> own_environments;
  std::vector<ChildEnds> ends;
  UniqueFd cgroup_procs;  ///< Invalid: none.
};
inline constexpr size_t kMaxForks = 16;  // 5 descriptors each; a message carries 253.

/// By worker: its pid, a child of this process that waits at the gate, or -errno. Empty: the server
/// is gone, and nothing of the request is left.
struct Forked {
  std::vector<pid_t> pids;
  UniqueFd gate;  ///< Lets a worker go for each byte, and ends those that wait when it is closed.
};

/// Owns the process; the destructor kills it. Threads: the loop's.
class ForkServer {
 public:
  /// `on_settled`: once, whether it is warm; a server that can't be started is cold. `limit`: for
  /// its imports.
  ForkServer(Loop& loop, ForkServerPlan plan, Duration limit,
             std::function<void(const wire::Warmed&)> on_settled);
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  const ForkServerPlan& plan() const { return plan_; }
  bool is_settled() const { return is_settled_; }
  /// It can fork. False after its death, too.
  bool is_warm() const { return was_warm_ && process_.pid > 0; }
  /// It was warm and has died.
  bool is_lost() const { return was_warm_ && process_.pid <= 0; }
  /// -1: none lives.
  pid_t pid() const { return process_.pid; }
  /// A request is not answered yet: any unknown child of this process may be a worker.
  bool is_forking() const { return !requests_.empty(); }

  /// Ends it; open requests are answered as when it dies.
  void Kill() { End("it was ended"); }

  /// Calls `on_forked` once; requests are answered in their order.
  void Fork(ForkRequest request, std::function<void(Forked)> on_forked);

 private:
  struct Open {
    ForkRequest request;
    std::function<void(Forked)> on_forked;
    UniqueFd gate;  // our end
  };

  void Start();
  Status SendPlan();
  Status Send(const std::vector<std::string>& texts, const std::vector<int>& descriptors);
  void SendNext();
  void OnReadable();
  void OnLine(std::string_view line);
  void OnOutput(size_t index);
  /// Ends the last line, if it has none.
  void EndOutput();
  void Settle(wire::Warmed result);
  /// Kills it; a server that is not settled is cold because of `why`.
  void End(const std::string& why);
  void Reap();
  void Answer(Forked answer);
  void RaiseFiles(const std::vector<pid_t>& pids) const;

  Loop& loop_;
  const ForkServerPlan plan_;
  const Duration limit_;
  std::function<void(const wire::Warmed&)> on_settled_;
  SpawnedProcess process_;
  rlimit files_{};                     // its limit of open files
  std::string lines_;                  // of the control socket: the last one, incomplete
  std::array<std::string, 2> output_;  // of stdout and stderr
  std::string doing_;                  // for the reason why it took too long
  bool is_settled_ = false;
  bool is_killed_ = false;  // by us
  bool was_warm_ = false;
  std::deque<Open> requests_;
  Watch start_timer_, limit_timer_;
  Watch control_watch_, exit_watch_;
  std::array<Watch, 2> output_watches_;
};

}  // namespace hvdray

#endif  // HVDRAY_AGENT_FORK_SERVER_H_
