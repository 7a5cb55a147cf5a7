// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/cgroup.h"
#include "agent/host_facts.h"
#include "agent/leave_socket.h"
#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/signals.h"

namespace hvdray {

const char kAgentBuild[] = "hvdray " HVDRAY_VERSION;
namespace {

/// Empty: this process may not create cgroups.
std::string MakeCgroupDirectory() {
  const std::optional<std::string> own = OwnCgroupDirectory();
  if (!own) return {};
  std::string directory = AgentCgroupDirectory(*own, ::getpid());
  // An existing group of this name is a leftover of a dead agent with the same pid.
  if (::mkdir(directory.c_str(), 0755) != 0 &&
      (errno != EEXIST || !KillAndRemoveCgroup(directory) ||
       ::mkdir(directory.c_str(), 0755) != 0)) {
    return {};
  }
  return directory;
}

/// Sweeps what agents have left that were killed together with their keepers; nobody else can. Not
/// this agent's business otherwise: no start waits for it.
class DeadAgentsSweep {
 public:
  explicit DeadAgentsSweep(Loop& loop) {
    if (const std::optional<std::string> own = OwnCgroupDirectory()) {
      groups_ = GroupsOfDeadAgents(*own);
    }
    if (groups_.empty()) return;
    Log(LogLevel::kInfo, "agent", "removing what {} killed agents have left", groups_.size());
    Sweep();
    timer_ = loop.Every(kSweepPause, [this] { Sweep(); });
  }

  /// The agent is about to end, maybe before what it has killed is dead. Blocks for a moment then.
  void Finish() {
    constexpr int kLastTries = 100;
    for (int i = 0; i < kLastTries && !groups_.empty(); ++i) {
      ::usleep(5000);
      Sweep();
    }
  }

 private:
  static constexpr Duration kSweepPause = std::chrono::milliseconds(50);
  static constexpr int kTries = 200;  // processes that are still dying

  void Sweep() {
    std::erase_if(groups_, [](const std::string& group) { return KillAndRemoveCgroup(group); });
    if (groups_.empty() || ++tries_ > kTries) timer_.Cancel();
  }

  std::vector<std::string> groups_;
  int tries_ = 0;
  Watch timer_;
};

/// Maps signals to the session's end.
std::vector<Watch> HandleSignals(Loop& loop, AgentSession& session, SignalCopies& copies) {
  std::vector<Watch> signals;
  for (const int signo : {SIGTERM, SIGINT, SIGHUP}) {
    signals.push_back(loop.OnSignal(signo, [&loop, &session, &copies, signo] {
      if (!copies.IsNew(signo, loop.Now())) return;
      const Status why(ErrorCode::kAgentLost,
                       fmt::format("the agent received SIG{}", ::sigabbrev_np(signo)));
      // A platform that reclaims a machine sends SIGTERM; the other signals come from a user.
      if (signo == SIGTERM) return session.Retire(kDefaultLeave, why, 128 + signo);
      session.LeaveUnlessEnding(why, 128 + signo);
    }));
  }
  return signals;
}

}  // namespace

int FailAgent(const Status& status) {
  (void)WriteAll(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", status.ToString())).ok();
  return kHvdrayFailed;
}

AgentEnd RunAgentSession(Loop& loop, std::unique_ptr<ByteStream> stream, Lifelines& lifelines,
                         AgentSessionOptions options, Duration signal_merge) {
  options.build = kAgentBuild;
  options.leave_directory = LeaveDirectory();
  if (!options.keeps_processes) options.cgroup_directory = MakeCgroupDirectory();
  std::optional<DeadAgentsSweep> sweep;
  if (!options.keeps_processes) sweep.emplace(loop);
  options.facts = GatherHostFacts();
  const std::string directory = options.cgroup_directory;

  AgentEnd end;
  {
    AgentSession session(loop, std::move(stream), std::move(options), [&](int code) {
      end.exit_code = code;
      loop.Stop();
    });
    lifelines.OnLost([&session](const Status& why) { session.Leave(why, kHvdrayFailed); });
    SignalCopies copies(signal_merge);
    const std::vector<Watch> signals = HandleSignals(loop, session, copies);
    session.Start();
    loop.Run();
    end.why = session.why();
    lifelines.OnLost([](const Status&) {});
  }
  if (!directory.empty()) KillAndRemoveCgroup(directory);
  if (sweep) sweep->Finish();
  return end;
}

}  // namespace hvdray
