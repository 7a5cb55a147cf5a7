// SPDX-License-Identifier: Apache-2.0
// What to run, resolved once from flags, environment, files and defaults. Each value knows where it
// came from, and nothing reads the environment or a file afterwards.
#ifndef HVDRAY_LAUNCHER_JOB_JOB_SPEC_H_
#define HVDRAY_LAUNCHER_JOB_JOB_SPEC_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/environ.h"
#include "base/types.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/placement.h"
#include "launcher/job/value_text.h"

namespace hvdray {

/// A value and its origin: "default", "flag --min-np", "env HVDRAY_GRACE", "job.yaml:7:3". A value
/// type; threads: as any value.
template <typename T>
class Setting {
 public:
  Setting() = default;
  explicit Setting(T value) : value_(std::move(value)) {}
  void Set(T value, std::string origin) {
    value_ = std::move(value);
    origin_ = std::move(origin);
  }
  const T& get() const { return value_; }
  const T& operator*() const { return value_; }
  const T* operator->() const { return &value_; }
  const std::string& origin() const { return origin_; }
  bool is_default() const { return origin_ == "default"; }

 private:
  T value_{};
  std::string origin_ = "default";
};

// The order of each enum's values is that of the option's choices in the option table.

/// The name under which hvdray was called. As horovodrun it also prints failures in Horovod's
/// sentences, which scripts look for.
enum class CalledAs : uint8_t { kHvdray, kHorovodrun };
/// What precedes a line of worker output.
enum class TagOutput : uint8_t { kRank, kHost, kNone };
/// Colour in messages; kAuto: on a terminal.
enum class ColorMode : uint8_t { kAuto, kAlways, kNever };
/// What speaks SSH; kAuto: libssh2, and the system's ssh for hosts that need it (docs/ssh.md).
enum class SshTransport : uint8_t { kAuto, kLibssh2, kOpenssh };
/// Which host keys are accepted; kAcceptNew: known ones, and those of hosts not seen before.
enum class HostKeyCheck : uint8_t { kAcceptNew, kYes, kNo };
enum class PlanFormat : uint8_t { kText, kJson };
/// Ray's placement strategies; kAuto: PACK, or STRICT_SPREAD with --num-hosts or -H.
enum class RayStrategy : uint8_t { kAuto, kPack, kSpread, kStrictPack, kStrictSpread };
/// Where a cluster file's slots come from. kAuto: from its Ray if that answers, else over SSH.
enum class JobBackend : uint8_t { kAuto, kRay, kSsh };
/// What `import horovod` finds in a worker.
enum class HorovodChoice : uint8_t { kInstalled, kBuiltin };
/// Which GPUs a worker sees: all that the job has on the host (Horovod's rule), or only its own.
enum class GpuChoice : uint8_t { kHost, kRank };

/// The options of `hvdray run --ray`: the cluster, what makes up a slot, the package.
struct RaySpec {
  Setting<bool> is_wanted;       ///< --ray, or --ray-address.
  Setting<JobBackend> backend;   ///< --backend
  Setting<std::string> address;  ///< --ray-address. Empty: see launcher/job/ray_address.h.
  Setting<std::string> verify;   ///< --ray-verify: "true", "false", or a file or directory of CAs.
  Setting<std::string> headers;  ///< --ray-headers: a JSON object of strings. May hold secrets.
  Setting<std::string> python;   ///< --ray-python. Empty: the Python that Ray runs in.
  Setting<bool> keeps_ray_env;   ///< --keep-ray-env
  Setting<bool> is_detached;     ///< --detach
  Setting<bool> stops_with_client;             ///< --stop-with-client
  Setting<double> log_limit{double{1 << 30}};  ///< --ray-log-limit: bytes on the head's disk.
  Setting<std::string> working_dir;            ///< --working-dir: a local directory, or a URI.
  Setting<std::vector<std::string>> excludes;  ///< --exclude: lines as in a .gitignore.
  Setting<std::string> runtime_env;            ///< --runtime-env: see RuntimeEnvText().

  // What the job asks for.
  Setting<std::optional<int>> num_hosts;              ///< --num-hosts
  Setting<std::optional<int>> num_slots;              ///< --num-slots: on each of them.
  Setting<double> cpus_per_slot{1};                   ///< --cpus-per-slot
  Setting<std::optional<double>> gpus_per_slot;       ///< nullopt: 1 with --use-gpu, else 0.
  Setting<bool> uses_gpu;                             ///< --use-gpu
  Setting<std::vector<std::string>> slot_resources;   ///< --resources-per-slot: NAME=AMOUNT.
  Setting<std::vector<std::string>> label_selectors;  ///< --label-selector: NAME=VALUE.
  Setting<RayStrategy> strategy;                      ///< --strategy
  Setting<Duration> group_timeout{std::chrono::seconds(100)};  ///< --placement-group-timeout
  Setting<GpuChoice> gpu_choice;                               ///< --gpu-visibility

  /// The working directory is an archive that each node fetches, not a directory on this machine.
  bool is_directory_remote() const { return working_dir->find("://") != std::string::npos; }
  double slot_gpus() const { return gpus_per_slot->value_or(*uses_gpu ? 1 : 0); }
};

/// Where a default is the driver's, it is written there.
inline constexpr ElasticPolicy kPolicyDefaults;

/// The settings of one job. Ranges are those of the option table. A duration of 0 means no limit
/// where that is possible.
struct JobSpec {
  // What runs.
  Setting<std::vector<std::string>> command;   ///< argv. Empty only if nothing is to run.
  Setting<std::string> working_directory;      ///< --cwd. Empty: the launcher's.
  Setting<std::vector<SyncWord>> sync;         ///< --sync
  Setting<std::vector<std::string>> env;       ///< -x: "NAME=VALUE", or "NAME" to forward it.
  Setting<bool> is_clean_env;                  ///< --clean-env
  Setting<bool> keeps_rank_variables;          ///< --keep-rank-variables
  Setting<bool> is_torch_env{true};            ///< --torch-env; see wants_torch_env().
  Setting<std::optional<int>> omp_threads{0};  ///< --omp-threads. 0: a share; nullopt: inherit.
  Setting<bool> has_channel;                   ///< --channel: docs/channel.md
  Setting<std::vector<std::string>> preload;   ///< --preload: docs/preload.md. Empty: cold.
  Setting<HorovodChoice> horovod;              ///< --horovod: docs/torch.md

  // Where, and how many.
  Setting<int> np;                             ///< -np. Range [1, 65536].
  Setting<std::vector<HostSlots>> hosts;       ///< Resolved, whatever named them.
  Setting<std::optional<int>> min_np;          ///< --min-np. Makes the job elastic.
  Setting<std::optional<int>> max_np;          ///< --max-np
  Setting<std::string> host_discovery_script;  ///< Makes the job elastic.
  Setting<bool> are_hosts_told;                ///< --host-source control: by the client of serve.
  Setting<std::optional<int>> slots_per_host;  ///< Of hosts that the script prints without slots.
  Setting<std::string> hostfile;      ///< --hostfile. Empty: something else named the hosts.
  Setting<std::string> job_file;      ///< -f
  Setting<std::string> config_file;   ///< --config-file: Horovod's tunables.
  Setting<std::string> cluster_file;  ///< --cluster
  Setting<std::vector<std::string>> network_interfaces;

  // Time.
  Setting<Duration> start_timeout{kPolicyDefaults.start_timeout};  ///< First dial to last Hello.
  Setting<Duration> elastic_timeout{kPolicyDefaults.elastic_timeout};
  Setting<Duration> grace{kPolicyDefaults.grace};                 ///< SIGTERM to SIGKILL.
  Setting<Duration> timeout{kPolicyDefaults.timeout};             ///< Of the whole job; 0: none.
  Setting<Duration> heartbeat_timeout{std::chrono::seconds(15)};  ///< Default 5 s if elastic.
  Setting<Duration> kv_hold{std::chrono::seconds(1)};  ///< Of a request for a missing key.

  // Failure.
  Setting<int> max_restarts{0};  ///< Of the whole gang. Range [0, 1000000].
  Setting<std::optional<int>> reset_limit;
  Setting<std::optional<std::pair<int, int>>> blacklist_cooldown_range;  ///< Seconds, 1 to 3600.

  // Elastic jobs only.
  Setting<ElasticMode> elastic_mode{kPolicyDefaults.mode};
  Setting<JoinMode> join{kPolicyDefaults.join};
  Setting<SuccessRule> success{kPolicyDefaults.success};
  Setting<Duration> discovery_interval{std::chrono::seconds(1)};  ///< Between runs; above 0.
  Setting<Duration> discovery_timeout{std::chrono::seconds(30)};  ///< Of one run; above 0.
  Setting<Duration> straggler_timeout{kPolicyDefaults.straggler_timeout};  ///< 0: none.
  Setting<Duration> settle{std::chrono::seconds(2)};
  Setting<bool> breaks_connections{kPolicyDefaults.breaks_connections};

  // Input and output.
  Setting<std::optional<int>> stdin_rank;  ///< nullopt: none.
  Setting<TagOutput> tag_output{TagOutput::kRank};
  Setting<bool> is_timestamped;          ///< --prefix-output-with-timestamp
  Setting<std::string> output_filename;  ///< --output-filename
  Setting<ColorMode> color{ColorMode::kAuto};
  Setting<bool> is_quiet;
  Setting<bool> is_verbose;
  Setting<bool> is_log_json;
  Setting<std::string> report_file, events_file, junit_file, trace_file;
  Setting<std::string> record_file;  ///< --record

  // Network.
  Setting<uint16_t> master_port;  ///< 0: rank 0's agent chooses one.
  Setting<bool> is_peer_checked{true};
  Setting<std::string> agent_path;  ///< Empty: hvdray-agent beside hvdray.
  Setting<int> ssh_port;            ///< 0: ssh's own default.
  Setting<std::string> ssh_identity_file;
  Setting<std::string> ssh_user;           ///< From a cluster file; a host's own user wins.
  Setting<std::string> ssh_proxy_command;  ///< From a cluster file.
  Setting<SshTransport> ssh_transport{SshTransport::kAuto};
  Setting<std::string> ssh_config_file;
  Setting<HostKeyCheck> host_key_check{HostKeyCheck::kAcceptNew};
  Setting<int> ssh_connections{32};
  Setting<std::string> launch_agent;  ///< Empty: SSH.
  Setting<std::string> remote_directory;
  Setting<bool> is_remote_forced;

  RaySpec ray;

  // Instead of running.
  Setting<bool> is_dry_run;
  Setting<std::optional<PlanFormat>> print_plan;
  Setting<std::optional<PlanFormat>> print_config;

  /// Horovod's tunables as the environment variables that carry them, each with its origin.
  std::map<std::string, Setting<std::string>> tunables;

  bool is_elastic() const { return min_np->has_value() || !host_discovery_script->empty(); }
  /// The workers outlive a change of the gang, so their environment goes stale.
  bool outlives_changes() const { return is_elastic() && *elastic_mode == ElasticMode::kHorovod; }
  bool wants_torch_env() const { return *is_torch_env && !outlives_changes(); }
  /// Hosts may be added while the job runs.
  bool may_learn_hosts() const {
    return !host_discovery_script->empty() || *are_hosts_told ||
           (is_elastic() && !hostfile->empty());
  }
};

/// The origin of a setting that follows from the job's being elastic.
inline constexpr std::string_view kElasticOrigin = "elastic job";

/// With --horovod builtin, of the launcher's environment: the directory whose `horovod` is ours.
/// Beside it is HVDRAY_LIBRARY, which workers get, too.
inline constexpr const char* kBuiltinHorovod = "HVDRAY_BUILTIN_HOROVOD";

/// The environment of every worker of `spec` on a host, before the variables of its slot: the
/// launcher's less what is dropped, then tunables, then -x. `is_local`: the worker runs on this
/// machine and keeps the variables of this login. Pure.
Environment WorkerEnvironment(const JobSpec& spec, const Environment& launcher, bool is_local);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_JOB_SPEC_H_
