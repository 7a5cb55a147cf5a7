// SPDX-License-Identifier: Apache-2.0
// What to run, resolved once from flags, environment, files and defaults; each value knows where
// it came from. Nothing reads the environment or a file afterwards (style P11).
#ifndef HVDRAY_LAUNCHER_JOB_JOB_SPEC_H_
#define HVDRAY_LAUNCHER_JOB_JOB_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/environ.h"
#include "base/types.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/placement.h"
#include "launcher/job/ray_spec.h"
#include "launcher/job/setting.h"
#include "launcher/job/value_text.h"

namespace hvdray {

enum class TagOutput : uint8_t { kRank, kHost, kNone };
enum class ColorMode : uint8_t { kAuto, kAlways, kNever };
enum class SshTransport : uint8_t { kAuto, kLibssh2, kOpenssh };
enum class HostKeyCheck : uint8_t { kAcceptNew, kYes, kNo };
enum class PlanFormat : uint8_t { kText, kJson };

/// Durations: 0 means "none" where "no limit" makes sense.
struct JobSpec {
  // What runs.
  Setting<std::vector<std::string>>
      command;                             ///< argv; not empty unless is_dry_run or print_config.
  Setting<std::string> working_directory;  ///< --cwd. Empty: where hvdray runs.
  Setting<std::vector<SyncWord>> sync;     ///< --sync
  Setting<std::vector<std::string>> env;   ///< -x: "NAME=VALUE", or "NAME" (taken from ours).
  Setting<bool> is_clean_env;              ///< --clean-env
  Setting<bool> is_torch_env{true};        ///< Torchrun's variables too; see wants_torch_env().

  // Where and how many.
  Setting<int> np;                        ///< -np. Range [1, 65536].
  Setting<std::vector<HostSlots>> hosts;  ///< Resolved list, whatever named it.
  Setting<std::optional<int>> min_np;     ///< Selects elastic.
  Setting<std::optional<int>> max_np;
  Setting<std::string> host_discovery_script;  ///< Selects elastic.
  Setting<std::optional<int>> slots_per_host;
  Setting<std::string> hostfile;      ///< --hostfile; empty: something else named the hosts.
  Setting<std::string> job_file;      ///< -f
  Setting<std::string> config_file;   ///< --config-file: Horovod's tunables.
  Setting<std::string> cluster_file;  ///< --cluster
  Setting<std::vector<std::string>> network_interfaces;

  // Time.
  Setting<Duration> start_timeout{std::chrono::seconds(30)};  ///< First dial to last agent's Hello.
  Setting<Duration> elastic_timeout{std::chrono::seconds(600)};
  Setting<Duration> grace{std::chrono::seconds(5)};  ///< SIGTERM to SIGKILL.
  Setting<Duration> timeout{Duration::zero()};       ///< Whole job; 0: none. Exit 124.
  Setting<Duration> heartbeat_timeout{std::chrono::seconds(15)};
  Setting<Duration> kv_hold{std::chrono::seconds(1)};

  // Failure.
  Setting<int> max_restarts{0};  ///< Of the whole gang. Range [0, 1000000].
  Setting<std::optional<int>> reset_limit;
  Setting<std::optional<std::pair<int, int>>> blacklist_cooldown_range;  ///< Seconds, 1 to 3600.

  // Elastic jobs only; the defaults are those of ElasticPolicy.
  Setting<ElasticMode> elastic_mode{ElasticMode::kHorovod};
  Setting<JoinMode> join{JoinMode::kWarm};
  Setting<SuccessRule> success{SuccessRule::kAll};
  Setting<Duration> discovery_interval{std::chrono::seconds(1)};  ///< Above 0.
  Setting<Duration> discovery_timeout{std::chrono::seconds(30)};  ///< Of one run; above 0.
  Setting<Duration> straggler_timeout{Duration::zero()};          ///< 0: none.
  Setting<bool> breaks_connections{true};

  // Input and output.
  Setting<std::optional<int>> stdin_rank;  ///< nullopt: none.
  Setting<TagOutput> tag_output{TagOutput::kRank};
  Setting<bool> is_timestamped;           ///< --prefix-output-with-timestamp
  Setting<std::string> output_directory;  ///< --output-filename
  Setting<ColorMode> color{ColorMode::kAuto};
  Setting<bool> is_quiet;
  Setting<bool> is_verbose;
  Setting<bool> is_log_json;
  Setting<std::string> report_file, events_file, junit_file, trace_file;
  Setting<std::string> record_file;  ///< --record

  // Network of the job.
  Setting<uint16_t> master_port;  ///< 0: one that rank 0's agent offers.
  Setting<bool> is_peer_checked{true};
  Setting<std::string> agent_path;  ///< Empty: hvdray-agent beside hvdray.
  Setting<int> ssh_port;            ///< 0: ssh's own default.
  Setting<std::string> ssh_identity_file;
  Setting<std::string> ssh_user;           ///< Of a cluster file; a host's own user wins.
  Setting<std::string> ssh_proxy_command;  ///< Of a cluster file.
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

  /// Horovod's tunables as the environment they become (spec 4.2), each with its origin.
  std::map<std::string, Setting<std::string>> tunables;

  bool is_elastic() const { return min_np->has_value() || !host_discovery_script->empty(); }
  /// Its workers live through a change of the gang, so what they got in their environment goes
  /// stale.
  bool outlives_changes() const { return is_elastic() && *elastic_mode == ElasticMode::kHorovod; }
  bool wants_torch_env() const { return *is_torch_env && !outlives_changes(); }
  /// Hosts that are not there yet may be named later.
  bool may_learn_hosts() const {
    return !host_discovery_script->empty() || (is_elastic() && !hostfile->empty());
  }
};

/// The environment of every worker of `spec` on a host, before slot variables (style 6): the
/// launcher's minus what is dropped, tunables, then -x. `is_local`: this machine's login variables
/// may stay. Pure.
Environment WorkerEnvironment(const JobSpec& spec, const Environment& launcher, bool is_local);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_JOB_JOB_SPEC_H_
