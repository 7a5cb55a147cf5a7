// hvdray: finds the command and calls it. Called as "horovodrun" it is `hvdray run`.
#include <fmt/format.h>
#include <signal.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/environ.h"
#include "base/nearest.h"
#include "base/notice.h"
#include "base/standard_streams.h"
#include "cmd/commands.h"
#include "cmd/launch_plan.h"
#include "cmd/rendezvous_command.h"

namespace hvdray {
namespace {

struct Command {
  std::string_view name;
  int (*run)(const CommandLine&);
  std::string_view summary;
};

int Rendezvous(const CommandLine& line) { return RendezvousCommand(line.args); }

constexpr std::array kCommands = {
    Command{"run", &RunCommand, "start a command on many slots and report what happened"},
    Command{"check", &CheckCommand, "say whether a job would start, and what its hosts are like"},
    Command{"replay", &ReplayCommand, "run an elastic job's recording again and check its rules"},
    Command{"follow", &FollowCommand, "follow a job on Ray that was submitted before, or stop it"},
    Command{"status", &StatusCommand, "what a Ray cluster has, and what of it is in use"},
    Command{"jobs", &JobsCommand, "the jobs of hvdray on a Ray cluster, and how they are"},
    Command{"slots", &SlotsCommand, "how many slots a job could get from a Ray cluster now"},
    Command{"rendezvous", &Rendezvous, "serve Horovod's rendezvous for workers started otherwise"},
    Command{"agent", &AgentCommand, "the per-host side of run; hvdray starts it itself"},
};

void PrintHelp(std::FILE* out) {
  std::fputs(
      "hvdray starts data-parallel training: unmodified Horovod scripts, torch.distributed\n"
      "scripts, or any command that reads its rank from the environment.\n\n"
      "  hvdray run -np 4 -- python train.py\n"
      "  hvdray run --cluster configs/quickstart.yaml\n\n"
      "Commands:\n",
      out);
  for (const Command& command : kCommands) {
    std::fputs(fmt::format("  {:<12}{}\n", command.name, command.summary).c_str(), out);
  }
  std::fputs("\nhvdray COMMAND --help shows a command's options. Exit codes: docs/errors.md\n",
             out);
}

int Dispatch(std::string_view name, const CommandLine& line) {
  for (const Command& command : kCommands) {
    if (command.name == name) return command.run(line);
  }
  if (name == "help" || name == "--help" || name == "-h") {
    PrintHelp(stdout);
    return 0;
  }
  if (name == "version" || name == "--version" || name == "-v") {
    std::fputs((BuildName() + "\n").c_str(), stdout);
    return 0;
  }
  std::vector<std::string_view> names;
  names.reserve(std::size(kCommands));
  for (const Command& command : kCommands) names.push_back(command.name);
  const std::string nearest = Nearest(name, names);
  const std::string meant = nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest);
  SetUpLogEarly(line.args, Environment::FromProcess());
  Tell(LogLevel::kError, "hvdray",
       fmt::format("no command '{}'{} [HVD-E0101]\n  hint: hvdray --help lists them", name, meant));
  return 2;
}

}  // namespace
}  // namespace hvdray

int main(int argc, char** argv) {
  const hvdray::TimePoint began = std::chrono::steady_clock::now();
  hvdray::FillStandardStreams();
  hvdray::RestoreSignals();
  // A reader that goes away is an error of one write, not the end of the process.
  ::signal(SIGPIPE, SIG_IGN);
  std::vector<std::string> words(argv, argv + argc);
  const std::string_view path = words.empty() ? std::string_view() : words[0];
  if (path.substr(path.rfind('/') + 1) == "horovodrun") {
    return hvdray::RunCommand({std::span(words).subspan(1), began, /*is_horovodrun=*/true});
  }
  if (words.size() < 2) {
    std::fputs(hvdray::OverviewHelp().c_str(), stderr);
    return 2;
  }
  return hvdray::Dispatch(words[1], {std::span(words).subspan(2), began});
}
