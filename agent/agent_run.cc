#include "agent/agent_run.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agent/cgroup.h"
#include "agent/control_socket.h"
#include "agent/host_facts.h"

namespace hvdray {
namespace {

/// Empty: this process may make no cgroups.
std::string MakeCgroupFolder() {
  const std::optional<std::string> own = OwnCgroupFolder();
  if (!own) return {};
  std::string folder = AgentCgroupFolder(*own, ::getpid());
  // One of this name can only be left from a dead agent of the same number.
  if (::mkdir(folder.c_str(), 0755) != 0 &&
      (errno != EEXIST || !KillAndRemoveCgroup(folder) || ::mkdir(folder.c_str(), 0755) != 0)) {
    return {};
  }
  return folder;
}

/// What a signal does to the session, but once where it comes in several copies.
std::vector<Watch> HandleSignals(Loop& loop, AgentSession& session, Duration merge) {
  std::vector<Watch> signals;
  auto last = std::make_shared<std::map<int, TimePoint>>();  // shared by the handlers alone
  for (const int signo : {SIGTERM, SIGINT, SIGHUP}) {
    signals.push_back(loop.OnSignal(signo, [&loop, &session, last, merge, signo] {
      const auto [seen, is_first] = last->try_emplace(signo, loop.Now());
      if (!is_first && loop.Now() - std::exchange(seen->second, loop.Now()) < merge) return;
      const Status why(ErrorCode::kAgentLost,
                       fmt::format("the agent got SIG{}", ::sigabbrev_np(signo)));
      // Who takes a machine away says so by SIGTERM; the others are a person's.
      if (signo == SIGTERM) return session.Retire(kDefaultLeave, why, 128 + signo);
      session.Leave(why, 128 + signo);
    }));
  }
  return signals;
}

}  // namespace

int FailAgent(const Status& status) {
  (void)WriteAll(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", status.ToString())).ok();
  return kAgentFailed;
}

AgentEnd RunAgentSession(Loop& loop, std::unique_ptr<ByteStream> stream, Lifelines& lifelines,
                         AgentSessionOptions options, Duration signal_merge) {
  options.build = kAgentBuild;
  options.control_folder = ControlFolder();
  options.cgroup_folder = MakeCgroupFolder();
  options.facts = GatherHostFacts();
  const std::string folder = options.cgroup_folder;

  AgentEnd end;
  {
    AgentSession session(loop, std::move(stream), std::move(options), [&](int code) {
      end.exit_code = code;
      loop.Stop();
    });
    lifelines.OnLost([&session](const Status& why) { session.Leave(why, kAgentFailed); });
    const std::vector<Watch> signals = HandleSignals(loop, session, signal_merge);
    session.Start();
    loop.Run();
    end.why = session.why();
    lifelines.OnLost([](const Status&) {});
  }
  if (!folder.empty()) KillAndRemoveCgroup(folder);
  return end;
}

}  // namespace hvdray
