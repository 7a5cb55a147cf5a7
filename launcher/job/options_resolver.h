// SPDX-License-Identifier: Apache-2.0
// From words, environment and files to one JobSpec: precedence, validation, origins. Opens nothing:
// files go through ResolverFiles.
#ifndef HVDRAY_LAUNCHER_JOB_OPTIONS_RESOLVER_H_
#define HVDRAY_LAUNCHER_JOB_OPTIONS_RESOLVER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/environ.h"
#include "base/result.h"
#include "base/user_home.h"
#include "base/yaml.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"
#include "launcher/job/resolver_files.h"

namespace hvdray {

/// The outcome of reading a command line.
struct RunRequest {
  JobSpec spec;  ///< Set unless one of wants_* is.
  /// One line each, without level or time: unknown HVDRAY_* variables, options without effect.
  std::vector<std::string> warnings;
  bool wants_help = false;         ///< -h
  bool wants_version = false;      ///< -v
  bool wants_check_build = false;  ///< -cb
};

/// $XDG_CONFIG_HOME/hvdray/config.yaml or ~/.config/…, the user's own defaults; empty when neither
/// is known.
std::string UserFilePath(const Environment& environment);

/// Resolves `args`, the words after `hvdray run` (or after `horovodrun`). Precedence: flags, then
/// HVDRAY_<LONG_NAME> (then HOROVOD_START_TIMEOUT and HOROVOD_ELASTIC_TIMEOUT), the -f file, the
/// run section of --cluster, Horovod's --config-file, the user file, the default. Called as
/// horovodrun, whose commands pass through a shell, NAME=VALUE before the command is a -x.
/// Errors, one line with the origin of the value: kUsage, kSpecInvalid, kNotEnoughSlots,
/// kNotSupported (MPI, jsrun), kFileUnreadable, and those of `files`.
Result<RunRequest> ResolveRun(std::span<const std::string> args, const Environment& environment,
                              const ResolverFiles& files, CalledAs name = CalledAs::kHvdray);

/// The outcome of reading the command line of `hvdray check`.
struct CheckRequest {
  RunRequest run;  ///< Its spec may lack a command.
  bool is_json = false;
  std::vector<std::string> modules;  ///< --import, each once.
  Status slots;                      ///< kNotEnoughSlots: a job would be refused.
};

/// Resolves `args`, the words after `hvdray check`: every option of run, with the same meaning, and
/// check's own. The command and -np may be left out. Errors: as ResolveRun(), except that too few
/// slots go into the result; kUsage or kNotSupported for what asks for something other than a
/// check.
Result<CheckRequest> ResolveCheck(std::span<const std::string> args, const Environment& environment,
                                  const ResolverFiles& files);

/// The outcome of reading the command line of `hvdray serve`.
struct ServeRequest {
  RunRequest run;
  int control_fd = -1;       ///< -1: not given.
  std::string control_path;  ///< Empty: not given. One of both is.
  Duration linger{};
  int broker_fd = -1;  ///< --ray-broker-fd; then run.spec is one with --ray.
};

/// Resolves `args`, the words after `hvdray serve`. Errors: as ResolveRun(), and kUsage or
/// kNotSupported for what does not apply.
Result<ServeRequest> ResolveServe(std::span<const std::string> args, const Environment& environment,
                                  const ResolverFiles& files);

/// What was asked of a command that starts no job.
struct CommandRequest {
  const CommandRow* command = nullptr;
  std::vector<std::string> arguments;  ///< As many as the command takes.
  LayerStack said;                     ///< Flags, then variables.
  JobSpec spec;                        ///< The options that run has too; no hosts, np 1.
  bool wants_help = false;
  bool wants_version = false;
  /// Whether a flag was given.
  bool Has(OptionId id) const { return said.Find(id) != nullptr; }
  /// What is said, else the default that help shows, which must be a value.
  RawOption Get(OptionId id) const;
};

/// Resolves `args`, the words after `hvdray COMMAND`. Options stand before or after arguments;
/// those of group Ray also come from HVDRAY_<LONG_NAME>. Errors: kUsage.
Result<CommandRequest> ResolveRequest(std::string_view command, std::span<const std::string> args,
                                      const Environment& environment, const HomeOf& home_of = {});

/// What was asked of `hvdray submit`.
struct SubmitRequest {
  CommandRequest request;  ///< Its arguments: FILE, SCRIPT and what follows SCRIPT.
  bool is_gang = false;
  /// With --gang, the words of `hvdray run` for it, without the command: from FILE and the options.
  std::vector<std::string> run_words;
  bool has_working_dir = false;  ///< --working-dir is among them.
};

/// Resolves `args`, the words after `hvdray submit`: options before and after FILE, then SCRIPT,
/// whose arguments are left alone, but for one "--" before them, which Ray's users write.
/// `home_of`: for paths; null: they stay as they are.
/// Errors: kUsage, also for an option of run without --gang.
Result<SubmitRequest> ResolveSubmit(std::span<const std::string> args, const HomeOf& home_of = {});

/// What was asked of `hvdray bench`.
struct BenchRequest {
  bool wants_help = false;
  bool wants_version = false;
  OptionLayer said;                      ///< Its own options.
  std::vector<std::string> bench_words;  ///< The same as words.
  std::vector<std::string> run_words;    ///< Options of run, as words; empty: this is a rank.
};

/// Resolves `args`, the words after `hvdray bench`: its own options and those of run in any order.
/// Errors: kUsage, also for any other word.
Result<BenchRequest> ResolveBench(std::span<const std::string> args, const HomeOf& home_of = {});

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_OPTIONS_RESOLVER_H_
