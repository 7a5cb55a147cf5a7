// SPDX-License-Identifier: Apache-2.0
// hvdray: finds the command and calls it. Called as horovodrun, it is `hvdray run`.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/blocking_pool.h"
#include "base/command_words.h"
#include "base/environ.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/standard_streams.h"
#include "base/status.h"
#include "base/text.h"
#include "cmd/commands.h"
#include "launcher/job/exit_code.h"
#include "launcher/job/help.h"
#include "launcher/plan/log_options.h"

namespace hvdray {
namespace {

/// In the order of CommandTable().
constexpr std::array kCommands = {
    &RunCommand,       &CheckCommand,        &ServeCommand,     &ReplayCommand,  &FollowCommand,
    &UpCommand,        &DownCommand,         &StopCommand,      &StatusCommand,  &MonitorCommand,
    &ExecCommand,      &AttachCommand,       &SubmitCommand,    &RsyncUpCommand, &RsyncDownCommand,
    &GetHeadIpCommand, &GetWorkerIpsCommand, &DashboardCommand, &LogsCommand,    &JobsCommand,
    &SlotsCommand,     &ClusterCommand,      &BenchCommand,     &TuneCommand,    &RendezvousCommand,
    &ExplainCommand,   &AgentCommand};

/// `hvdray help`, `hvdray help run`.
int Help(const CommandLine& line);

/// What was meant by a word that is no command, but a job's own first word.
std::string HintFor(std::string_view name, bool is_slip) {
  if (is_slip) return "hvdray --help lists the commands";
  if (name.starts_with('-') || IsPython(name)) {
    return fmt::format("hvdray run {} ... starts a job", name.starts_with('-') ? name : "-np 4");
  }
  if (name.ends_with(".py")) return fmt::format("hvdray run -np 4 -- python3 {}", name);
  if (name.ends_with(".yaml") || name.ends_with(".yml")) {
    return fmt::format("hvdray run -f {0} starts a job file, hvdray up {0} a cluster", name);
  }
  return "hvdray --help lists the commands";
}

int Dispatch(std::string_view name, const CommandLine& line) {
  HVDRAY_CHECK(kCommands.size() == CommandTable().size());
  std::vector<std::string_view> names;
  for (const CommandRow& command : CommandTable()) {
    if (command.name == name) return kCommands[names.size()](line);
    names.push_back(command.name);
  }
  if (name == "help" || name == "--help" || name == "-h") return Help(line);
  if (name == "version" || name == "--version" || name == "-v") {
    return PrintOut("version", VersionText());
  }
  if (name.starts_with("--")) names = {"--help", "--version"};
  const std::string meant = DidYouMean(name, names);
  SetUpLogEarly(line.args, Environment::FromProcess());
  Tell(LogLevel::kError, "hvdray",
       fmt::format("unknown command '{}'{}{} [HVD-E0101]\n  hint: {}", ShownText(name),
                   meant.empty() ? "" : "; ", meant, HintFor(ShownText(name), !meant.empty())));
  return 2;
}

int Help(const CommandLine& line) {
  const bool is_plain =
      line.args.empty() || line.args.front() == "help" || line.args.front().starts_with('-');
  if (is_plain) {
    return PrintOut("help", OverviewHelp());
  }
  const std::vector<std::string> words = {"--help"};
  return Dispatch(line.args.front(), {words, line.began});
}

int Main(int argc, char** argv) {
  const TimePoint began = std::chrono::steady_clock::now();
  FillStandardStreams();
  RestoreSignals();
  // When a reader goes away, or a file reaches its limit, one write fails; the process goes on.
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  std::vector<std::string> words(argv, argv + argc);
  const std::string_view path = words.empty() ? std::string_view() : words[0];
  if (path.substr(path.rfind('/') + 1) == "horovodrun") {
    return RunCommand({std::span(words).subspan(1), began, /*is_horovodrun=*/true});
  }
  if (words.size() < 2) {
    std::fputs(OverviewHelp().c_str(), stderr);
    return 2;
  }
  return Dispatch(words[1], {std::span(words).subspan(2), began});
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) {
  const int code = hvdray::Main(argc, argv);
  if (!hvdray::BlockingPool::has_left_threads()) return code;
  // Those threads may still use what exit() would destroy.
  std::fflush(nullptr);
  ::_exit(code);
}
