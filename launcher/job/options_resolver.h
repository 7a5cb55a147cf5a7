// SPDX-License-Identifier: Apache-2.0
// From words, environment and files to one JobSpec: precedence, validation, origins (style 6).
// Opens nothing itself: what it wants to read goes through ResolverFiles.
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
#include "base/yaml.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/option_layers.h"

namespace hvdray {

/// What a --cluster file gives to a run.
struct ClusterHosts {
  std::vector<HostSlots> hosts;
  std::optional<YamlNode> run;  ///< Its `hvdray: {run: …}` section, a map of job file keys.
  /// How to log in to those that are not this machine; empty: SSH's own way. "~/" is the caller's.
  std::string ssh_user = {}, ssh_identity_file = {}, ssh_proxy_command = {};
  /// Not ok: why `hosts` is empty. Slots from Ray need none.
  Status hosts_status = {};
  std::string head = {};  ///< Its address as seen from here; empty: only its provider knows.
};

/// What the resolver may ask of the machine. Tests answer from memory. Blocking calls are fine:
/// nothing runs yet.
struct ResolverFiles {
  /// The whole file; nullopt when there is none. Errors: kFileUnreadable.
  std::function<Result<std::optional<std::string>>(const std::string& path)> read;
  /// A regular file that this user may execute.
  std::function<bool(const std::string& path)> is_executable;
  /// Reads and checks a cluster file. Errors: as the cluster room has them.
  std::function<Result<ClusterHosts>(const std::string& path)> load_cluster;
  /// The URL of the Ray dashboard of a cluster's head, as it is reached from here for as long as
  /// the caller lives. `spec`: how to log in there. Null: nobody asks; slots are those of hosts.
  /// Errors: kRayUnreachable and others: none can be reached.
  std::function<Result<std::string>(const ClusterHosts& cluster, const JobSpec& spec)> find_ray;
  /// Takes the warnings of a command line that turns out to be wrong: they may say why, and an
  /// error has no room for them. Null: they are dropped.
  std::function<void(const std::string& warning)> warn;
};

/// `read` and `is_executable` on the real file system (files up to 16 MiB); `load_cluster`
/// and `find_ray` are left to the caller.
ResolverFiles RealResolverFiles();

/// The outcome of reading a command line.
struct RunRequest {
  JobSpec spec;  ///< Filled unless one of the wants_* below is set.
  /// One line each, without level or time: unknown HVDRAY_* variables, options without effect.
  std::vector<std::string> warnings;
  bool wants_help = false;         ///< -h
  bool wants_version = false;      ///< -v
  bool wants_check_build = false;  ///< -cb
};

/// Under which name hvdray was called.
enum class CalledAs : uint8_t { kHvdray, kHorovodrun };

/// Resolves `args`, the words after `hvdray run` (or after `horovodrun`). Precedence: flags, then
/// HVDRAY_<LONG_NAME> (then HOROVOD_START_TIMEOUT and HOROVOD_ELASTIC_TIMEOUT), the -f file, the
/// run section of --cluster, Horovod's --config-file, the user file, the default. As horovodrun,
/// whose commands pass through a shell, NAME=VALUE in front of the command is a -x.
/// Errors, one line each with the origin of the value: kUsage, kSpecInvalid, kNotEnoughSlots,
/// kNotSupported (MPI, LSF, jsrun), kFileUnreadable. All of them are exit code 2.
Result<RunRequest> ResolveRun(std::span<const std::string> args, const Environment& environment,
                              const ResolverFiles& files, CalledAs name = CalledAs::kHvdray);

struct CheckRequest {
  RunRequest run;  ///< Its spec may have no command.
  bool is_json = false;
  std::vector<std::string> modules;  ///< --import, each once.
  Status slots;                      ///< kNotEnoughSlots: a job would not even be tried.
};

/// The words after `hvdray check`: every option of run with the meaning that it has there, and
/// check's own; the command may be left out, and so may -np. Errors: as ResolveRun(), but for too
/// few slots, which are told beside.
Result<CheckRequest> ResolveCheck(std::span<const std::string> args, const Environment& environment,
                                  const ResolverFiles& files);

/// What was asked of a command that starts no job.
struct CommandRequest {
  std::vector<std::string> arguments;  ///< As many as the command takes.
  LayerStack said;                     ///< Flags, then variables.
  JobSpec spec;                        ///< The options that run has too; no hosts, np 1.
  bool wants_help = false;
  bool wants_version = false;
  /// Whether a flag was given.
  bool Has(OptionId id) const { return said.Find(id) != nullptr; }
};

/// Resolves `args`, the words after `hvdray COMMAND`. Options stand before or after arguments;
/// those of group Ray also come from HVDRAY_<LONG_NAME>. Errors: kUsage.
Result<CommandRequest> ResolveRequest(std::string_view command, std::span<const std::string> args,
                                      const Environment& environment);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_OPTIONS_RESOLVER_H_
