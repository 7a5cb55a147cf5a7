// SPDX-License-Identifier: Apache-2.0
// The commands of hvdray, one file each, and what they share. All return an exit code of
// docs/errors.md.
#ifndef HVDRAY_CMD_COMMANDS_H_
#define HVDRAY_CMD_COMMANDS_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/types.h"
#include "launcher/engine/directory_list.h"
#include "launcher/job/options_resolver.h"

namespace hvdray {

/// What every command gets.
struct CommandLine {
  std::span<const std::string> args;  ///< The words after the command's name.
  TimePoint began{};                  ///< When hvdray was started.
  bool is_horovodrun = false;         ///< Called as horovodrun: `run`, with horovodrun's habits.
  /// For --sync, of a command that calls RunCommand(). nullptr: those of --sync.
  const DirectoryRules* sync_rules = nullptr;
};

int RunCommand(const CommandLine& line);
int CheckCommand(const CommandLine& line);
int ServeCommand(const CommandLine& line);
int ReplayCommand(const CommandLine& line);
int StatusCommand(const CommandLine& line);
// On a cluster that runs already, named by its file.
int MonitorCommand(const CommandLine& line);
int ExecCommand(const CommandLine& line);
int AttachCommand(const CommandLine& line);
int SubmitCommand(const CommandLine& line);
int RsyncUpCommand(const CommandLine& line);
int RsyncDownCommand(const CommandLine& line);
int GetHeadIpCommand(const CommandLine& line);
int GetWorkerIpsCommand(const CommandLine& line);
int DashboardCommand(const CommandLine& line);
int LogsCommand(const CommandLine& line);
int JobsCommand(const CommandLine& line);
int SlotsCommand(const CommandLine& line);
int FollowCommand(const CommandLine& line);
int UpCommand(const CommandLine& line);
int DownCommand(const CommandLine& line);
int StopCommand(const CommandLine& line);
int ClusterCommand(const CommandLine& line);
/// Serves until SIGINT, SIGTERM or SIGHUP, then answers held requests and returns 128 + signal; a
/// second signal ends it at once. Once it listens, prints to stdout "ADDRESS PORT" and then the
/// variables that a worker needs, NAME=VALUE a line.
int RendezvousCommand(const CommandLine& line);
/// Becomes hvdray-bench, which lies beside hvdray: returns only if that is not possible.
int BenchCommand(const CommandLine& line);
/// Becomes the Python that has the package hvdray: returns only if that is not possible.
int TuneCommand(const CommandLine& line);
int ExplainCommand(const CommandLine& line);
int AgentCommand(const CommandLine& line);

/// Resolves the command line of a command that starts no job. nullopt: the command goes on with
/// `request`; otherwise its exit code: help was printed (0), or an error of usage (2).
std::optional<int> ResolveCommandLine(std::string_view command, const CommandLine& line,
                                      CommandRequest* request);

/// "did you mean status or stop?": the `names` that begin with `word`, three at most; else the
/// nearest one. Empty: none is like it.
std::string DidYouMean(std::string_view word, std::span<const std::string_view> names);

/// What --version prints: BuildName() and the libraries it was built with.
std::string VersionText();
/// What -cb prints: the frameworks, controllers and operations of the Horovod that the first
/// python3 on PATH has. Blocks until that python answers, 10 s at most.
std::string BuildTable();
/// What `horovodrun --version` prints: Horovod's version, if that python3 has one, then ours.
/// Blocks as BuildTable().
std::string HorovodrunVersion();

}  // namespace hvdray

#endif  // HVDRAY_CMD_COMMANDS_H_
