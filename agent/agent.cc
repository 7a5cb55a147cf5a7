#include "agent/agent.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/agent_run.h"
#include "agent/control_socket.h"
#include "agent/dialled_agent.h"
#include "agent/keeper.h"
#include "base/byte_stream.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/standard_streams.h"

namespace hvdray {
namespace {

constexpr uint64_t kOpenFiles = 65536;

constexpr std::string_view kHelp =
    "usage: hvdray-agent [--help | --version | --leave [SECONDS]]\n"
    "       hvdray-agent [--folder DIR] [--probe-listener]\n"
    "       hvdray-agent --dial ADDRESS:PORT[,...] --seat N [--gpus ID,...] [--raylet PID]\n"
    "                    [--keep-ray-env] [--probe-listener] [--dial-timeout SECONDS]\n"
    "\n"
    "Runs the workers of one host for hvdray. hvdray starts it, on this machine or over SSH, and\n"
    "speaks to it in binary frames on its standard input and output; there is nothing to type.\n"
    "When that stream closes, it stops everything that it has started and exits.\n"
    "\n"
    "--leave: tells the agents of your elastic jobs on this host that it will be taken away in\n"
    "that many seconds (30), so that their workers leave in good order.\n"
    "--folder: starts in DIR; a copied agent is called in the folder that keeps it.\n"
    "--probe-listener: until workers start, other hosts may try a TCP connection to this one.\n"
    "\n"
    "--dial: on a Ray node, where hvdray's actor starts it: the driver is called at the first of\n"
    "these addresses that answers (for 60 s), as seat N, with the key in the first line of\n"
    "standard input. When standard input ends, or the raylet, everything is stopped. Workers may\n"
    "be given the GPUs of --gpus; --keep-ray-env leaves them Ray's own variables (RAY_*).\n";

void Print(int fd, std::string_view text) { (void)WriteAll(fd, text).ok(); }

int Leave(const std::string& seconds) {
  const std::optional<Duration> in = ParseLeave(seconds.empty() ? "leave" : "leave " + seconds);
  if (!in) {
    Print(STDERR_FILENO,
          fmt::format("hvdray-agent: --leave: '{}' is no number of seconds from 0 to "
                      "{}\n",
                      seconds, kMaxLeaveSeconds));
    return kAgentUsage;
  }
  const Result<int> told = TellAgentsToLeave(ControlFolder(), *in);
  if (!told.ok()) {
    Print(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", told.status().ToString()));
    return told.status().code() == ErrorCode::kUsage ? kAgentUsage : kAgentFailed;
  }
  Print(STDOUT_FILENO, fmt::format("told {} agent{}\n", *told, *told == 1 ? "" : "s"));
  return 0;
}

/// Copied agents that nobody used for 30 days are removed; their time tells. Where it can't be set,
/// this one is copied again some day.
void NoteUse() { (void)!::utimensat(AT_FDCWD, "/proc/self/exe", nullptr, 0); }

/// The home folder of somebody else, or one that is gone, is no reason to keep an agent from work.
void StartIn(const char* folder) {
  if (::chdir(folder) == 0) return;
  Log(LogLevel::kWarning, "agent", "cannot start in '{}': {}", folder, ::strerror(errno));
  (void)!::chdir("/");
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
      Print(STDOUT_FILENO, fmt::format("{}\n", kAgentBuild));
      return 0;
    }
    if (word == "--leave") return Leave(i + 1 < argc ? argv[i + 1] : "");
    if (word == "--folder" && i + 1 < argc) {
      NoteUse();
      StartIn(argv[++i]);
      continue;
    }
    if (word != "--probe-listener") {
      Print(STDERR_FILENO, fmt::format("hvdray-agent: unknown argument '{}' (see --help)\n", word));
      return kAgentUsage;
    }
    options->has_probe_listener = true;
  }
  if (::isatty(STDIN_FILENO) == 1 || ::isatty(STDOUT_FILENO) == 1) {
    Print(STDERR_FILENO,
          "hvdray-agent: runs the workers of one host for hvdray, which starts it; "
          "type 'hvdray run' instead\n");
    return kAgentUsage;
  }
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    Print(STDERR_FILENO,
          "hvdray-agent: stdin and stdout have to be a connection to hvdray, which starts it; "
          "type 'hvdray run' instead\n");
    return kAgentUsage;
  }
  return std::nullopt;
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

int RunAgent(UniqueFd keeper, AgentSessionOptions options) {
  auto link = TakeLink();
  if (!link.ok()) return FailAgent(link.status());
  auto loop = Loop::Create();
  if (!loop.ok()) return FailAgent(loop.status());
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  Lifelines lifelines(**loop, [](const Status&) {});
  lifelines.Add(std::move(keeper), "the agent's keeper was killed");
  return RunAgentSession(**loop,
                         MakeFdStream(**loop, std::move(link->first), std::move(link->second)),
                         lifelines, std::move(options), Duration::zero())
      .exit_code;
}

/// nullopt: there is no --dial among the words.
std::optional<int> DialIfAsked(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const auto is_dial = [](std::string_view word) {
    return word == "--dial" || word.starts_with("--dial=");
  };
  if (std::none_of(words.begin(), words.end(), is_dial)) return std::nullopt;
  Result<DialOptions> options = ParseDialOptions(words);
  if (options.ok()) return RunDialledAgent(*options);
  FailAgent(options.status());
  return kAgentUsage;
}

}  // namespace

int AgentMain(int argc, char** argv) {
  AgentSessionOptions options;
  if (const std::optional<int> code = DialIfAsked(argc, argv)) return *code;
  if (const std::optional<int> code = AnswerWords(argc, argv, &options)) return *code;
  ::signal(SIGPIPE, SIG_IGN);
  Result<UniqueFd> lifeline = ForkKeeper();
  if (!lifeline.ok()) return FailAgent(lifeline.status());
  return RunAgent(std::move(lifeline).value(), std::move(options));
}

}  // namespace hvdray
