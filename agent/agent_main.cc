// SPDX-License-Identifier: Apache-2.0
#include "agent/agent_main.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
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

#include "agent/agent_arguments.h"
#include "agent/agent_run.h"
#include "agent/dialled_agent.h"
#include "agent/keeper.h"
#include "agent/leave_socket.h"
#include "base/environ.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/signals.h"
#include "base/standard_streams.h"

namespace hvdray {
namespace {

constexpr int kAgentUsage = 2;  // the exit code for wrong usage
constexpr uint64_t kOpenFiles = 65536;

constexpr std::string_view kHelp =
    "usage: hvdray-agent [--help | --version | --leave [SECONDS]]\n"
    "       hvdray-agent [--folder DIR] [--probe-listener] [--keep-processes]\n"
    "       hvdray-agent --dial ADDRESS:PORT[,...] --endpoint N [--gpus ID,...] [--raylet PID]\n"
    "                    [--keep-ray-env] [--probe-listener] [--dial-timeout SECONDS]\n"
    "\n"
    "Runs the workers of one host for hvdray. hvdray starts it, on this machine or over SSH, and\n"
    "speaks to it in binary frames on its standard input and output; not for interactive use.\n"
    "When that stream closes, it stops everything that it has started and exits.\n"
    "\n"
    "--leave: tells the agents of your elastic jobs that this host goes away in that many seconds\n"
    "(30), so that their workers leave the job first.\n"
    "--folder: starts in DIR; hvdray starts a copied agent in the directory that holds the copy.\n"
    "--probe-listener: until workers start, other hosts may test a TCP connection to this one.\n"
    "--keep-processes: processes that a finished command leaves survive the agent (`hvdray up`\n"
    "starts Ray this way). A command that runs when the stream closes ends.\n"
    "\n"
    "--dial: for hvdray's actor on a Ray node: dials the driver at the first of these addresses\n"
    "that answers (for 60 s), as agent endpoint N, with the key from the first line of standard\n"
    "input. Stops everything when standard input closes or the raylet exits. --gpus: the GPUs of\n"
    "the workers; --keep-ray-env: keeps Ray's own variables (RAY_*) for them.\n";

void Print(int fd, std::string_view text) { (void)WriteAll(fd, text).ok(); }

/// Returns the exit code.
int PrintOut(std::string_view text) {
  Status written = WriteAll(STDOUT_FILENO, text);
  if (written.ok()) return 0;
  const bool is_reader_gone = errno == EPIPE;
  const int failed = FailAgent(std::move(written).WithContext("stdout"));
  return is_reader_gone ? 128 + SIGPIPE : failed;
}

int Leave(const std::string& seconds) {
  const std::optional<Duration> in = ParseLeave(seconds.empty() ? "leave" : "leave " + seconds);
  if (!in) {
    Print(STDERR_FILENO,
          fmt::format("hvdray-agent: --leave: '{}' is not a number of seconds from 0 to "
                      "{}\n",
                      seconds, kMaxLeaveSeconds));
    return kAgentUsage;
  }
  const Result<int> told = TellAgentsToLeave(LeaveDirectory(), *in);
  if (!told.ok()) {
    Print(STDERR_FILENO, fmt::format("hvdray-agent: {}\n", told.status().ToString()));
    return told.status().code() == ErrorCode::kUsage ? kAgentUsage : kHvdrayFailed;
  }
  return PrintOut(fmt::format("notified {} agent{}\n", *told, *told == 1 ? "" : "s"));
}

/// Marks this binary as used: the launcher removes copied agents that nobody used for 30 days, by
/// their time stamp. Where the stamp can't be set, the agent is merely copied again one day.
void NoteUse() { (void)!::utimensat(AT_FDCWD, "/proc/self/exe", nullptr, 0); }

/// Falls back to "/": a missing or unreadable home directory must not keep an agent from working.
void StartIn(const char* directory) {
  if (::chdir(directory) == 0) return;
  Log(LogLevel::kWarning, "agent", "cannot start in '{}': {}", directory, ::strerror(errno));
  (void)!::chdir("/");
}

/// Refuses to be an agent for anything but a launcher at the other end. Returns an exit code, or
/// nullopt to go on.
std::optional<int> RefuseWithoutLauncher() {
  if (::isatty(STDIN_FILENO) == 1 || ::isatty(STDOUT_FILENO) == 1) {
    Print(STDERR_FILENO,
          "hvdray-agent: runs the workers of one host for hvdray, which starts it; "
          "type 'hvdray run' instead\n");
    return kAgentUsage;
  }
  if (!IsPollable(STDIN_FILENO) || !IsPollable(STDOUT_FILENO)) {
    Print(STDERR_FILENO,
          "hvdray-agent: stdin and stdout must be a connection to hvdray, which starts it; "
          "type 'hvdray run' instead\n");
    return kAgentUsage;
  }
  return std::nullopt;
}

int Serve(const AgentArguments& arguments) {
  if (!arguments.directory.empty()) {
    NoteUse();
    StartIn(arguments.directory.c_str());
  }
  if (const std::optional<int> code = RefuseWithoutLauncher()) return *code;
  // A write that fails says so; it ends no process. Workers start with the defaults.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  AgentSessionOptions options;
  options.has_probe_listener = arguments.has_probe_listener;
  options.keeps_processes = arguments.keeps_processes;
  UniqueFd keeper;
  if (arguments.keeps_processes) {
    // Neither keeper nor subreaper: they would sweep away what is to stay. Commands die with this
    // process (PR_SET_PDEATHSIG), see docs/adr/0020.
    ::setsid();
    options.node.environment = Environment::FromProcess().ToStrings();
  } else {
    Result<UniqueFd> lifeline = ForkKeeper();
    if (!lifeline.ok()) return FailAgent(lifeline.status());
    keeper = std::move(lifeline).value();
  }
  auto link = TakeStdinAndStdout();
  if (!link.ok()) return FailAgent(link.status());
  auto loop = Loop::Create();
  if (!loop.ok()) return FailAgent(loop.status());
  (void)RaiseOpenFileLimit(kOpenFiles).ok();
  Lifelines lifelines(**loop, [](const Status&) {});
  if (keeper.is_valid()) lifelines.Add(std::move(keeper), "the agent's keeper was killed");
  return RunAgentSession(**loop,
                         MakeFdStream(**loop, std::move(link->first), std::move(link->second)),
                         lifelines, std::move(options), kSignalCopy)
      .exit_code;
}

}  // namespace

int AgentMain(int argc, char** argv) {
  // Else that of the file which was executed, which on Ray is a descriptor: "7" in ps and top.
  ::prctl(PR_SET_NAME, "hvdray-agent");
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  const Result<AgentArguments> arguments = ParseAgentArguments(words);
  if (!arguments.ok()) {
    FailAgent(arguments.status());
    return kAgentUsage;
  }
  switch (arguments->task) {
    case AgentTask::kHelp:
      return PrintOut(kHelp);
    case AgentTask::kVersion:
      return PrintOut(fmt::format("{}\n", kAgentBuild));
    case AgentTask::kLeave:
      return Leave(arguments->leave_in);
    case AgentTask::kDial:
      return RunDialledAgent(arguments->dial);
    case AgentTask::kServe:
      break;
  }
  return Serve(*arguments);
}

}  // namespace hvdray
