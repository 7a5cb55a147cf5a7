#include "launcher/agent/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/standard_streams.h"
#include "launcher/agent/agent_session.h"
#include "launcher/agent/cgroup.h"
#include "launcher/agent/control_socket.h"
#include "launcher/agent/host_facts.h"
#include "launcher/agent/keeper.h"

namespace hvdray {
namespace {

constexpr int kUsage = 2;
constexpr int kFailed = 125;
constexpr uint64_t kOpenFiles = 65536;
constexpr char kBuild[] = "hvdray " HVDRAY_VERSION;

constexpr std::string_view kHelp =
    "usage: hvdray-agent [--help | --version | --probe-listener | --leave [SECONDS]]\n"
    "\n"
    "Runs the workers of one host for hvdray. hvdray starts it, on this machine or over SSH, and\n"
    "speaks to it in binary frames on its standard input and output; there is nothing to type.\n"
    "When that stream closes, it stops everything that it has started and exits.\n"
    "\n"
    "--leave: tells the agents of your elastic jobs on this host that it will be taken away in\n"
    "that many seconds (30), so that their workers leave in good order.\n"
    "--probe-listener: until workers start, other hosts may try a TCP connection to this one.\n";

void Print(int fd, std::string_view text) { (void)WriteAll(fd, text).ok(); }

int Leave(const std::string& seconds) {
  const std::optional<Duration> in = ParseLeave(seconds.empty() ? "leave" : "leave " + seconds);
  if (!in) {
    Print(STDERR_FILENO,
          fmt::format("hvdray-agent: --leave: '{}' is no number of seconds from 0 to "
                      "{}\n",
                      seconds, kMaxLeaveSeconds));
    return kUsage;
  }
  const Result<int> told = TellAgentsToLeave(ControlFolder(), *in);
  if (!told.ok()) {
    Print(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", told.status().ToString()));
    return kFailed;
  }
  Print(STDOUT_FILENO, fmt::format("told {} agent{}\n", *told, *told == 1 ? "" : "s"));
  return 0;
}

/// nullopt: go on.
std::optional<int> AnswerWords(int argc, char** argv, AgentSessionOptions* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--help" || word == "-h") {
      Print(STDOUT_FILENO, kHelp);
      return 0;
    }
    if (word == "--version") {
      Print(STDOUT_FILENO, fmt::format("{}\n", kBuild));
      return 0;
    }
    if (word == "--leave") return Leave(i + 1 < argc ? argv[i + 1] : "");
    if (word != "--probe-listener") {
      Print(STDERR_FILENO, fmt::format("hvdray-agent: unknown argument '{}' (see --help)\n", word));
      return kUsage;
    }
    options->has_probe_listener = true;
  }
  if (::isatty(STDIN_FILENO) == 1 || ::isatty(STDOUT_FILENO) == 1) {
    Print(STDERR_FILENO,
          "hvdray-agent: runs the workers of one host for hvdray, which starts it; "
          "type 'hvdray run' instead\n");
    return kUsage;
  }
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    Print(STDERR_FILENO,
          "hvdray-agent: stdin and stdout have to be a connection to hvdray, which starts it; "
          "type 'hvdray run' instead\n");
    return kUsage;
  }
  return std::nullopt;
}

int Fail(const Status& status) {
  Print(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", status.ToString()));
  return kFailed;
}

/// Moves the link away from 0 and 1: nothing that prints by mistake may end up in it.
Result<std::pair<UniqueFd, UniqueFd>> TakeLink() {
  UniqueFd in(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  UniqueFd out(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!in.is_valid() || !out.is_valid() || !null.is_valid()) return ErrnoStatus("dup", errno);
  ::dup2(null.get(), STDIN_FILENO);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return std::pair{std::move(in), std::move(out)};
}

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

int RunAgent(UniqueFd lifeline, AgentSessionOptions options) {
  auto link = TakeLink();
  if (!link.ok()) return Fail(link.status());
  auto loop = Loop::Create();
  if (!loop.ok()) return Fail(loop.status());
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  options.build = kBuild;
  options.control_folder = ControlFolder();
  options.cgroup_folder = MakeCgroupFolder();
  options.facts = GatherHostFacts();
  const std::string folder = options.cgroup_folder;

  int exit_code = kFailed;
  {
    AgentSession session(**loop,
                         MakeFdStream(**loop, std::move(link->first), std::move(link->second)),
                         std::move(options), [&](int code) {
                           exit_code = code;
                           (*loop)->Stop();
                         });
    Watch keeper_watch;
    keeper_watch = (*loop)->OnFd(lifeline.get(), FdEvent::kRead, [&] {
      keeper_watch.Cancel();
      session.Leave({ErrorCode::kAgentLost, "the agent's keeper was killed"}, kFailed);
    });
    std::vector<Watch> signals;
    for (const int signo : {SIGTERM, SIGINT, SIGHUP}) {
      signals.push_back((*loop)->OnSignal(signo, [&session, signo] {
        const Status why(ErrorCode::kAgentLost,
                         fmt::format("the agent got SIG{}", ::sigabbrev_np(signo)));
        // Who takes a machine away says so by SIGTERM; the others are a person's.
        if (signo == SIGTERM) return session.Retire(kDefaultLeave, why, 128 + signo);
        session.Leave(why, 128 + signo);
      }));
    }
    session.Start();
    (*loop)->Run();
  }
  if (!folder.empty()) KillAndRemoveCgroup(folder);
  return exit_code;
}

}  // namespace

int AgentMain(int argc, char** argv) {
  FillStandardStreams();
  AgentSessionOptions options;
  if (const std::optional<int> code = AnswerWords(argc, argv, &options)) return *code;
  ::signal(SIGPIPE, SIG_IGN);
  Result<UniqueFd> lifeline = ForkKeeper();
  if (!lifeline.ok()) return Fail(lifeline.status());
  return RunAgent(std::move(lifeline).value(), std::move(options));
}

}  // namespace hvdray
