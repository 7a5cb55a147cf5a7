// SPDX-License-Identifier: Apache-2.0
// A cluster file (the YAML of `ray up`, plus a section `hvdray`), checked as a whole. Pure except
// for LoadClusterSpec(); starts nothing and opens no connection.
#ifndef HVDRAY_CLUSTER_FILE_CLUSTER_SPEC_H_
#define HVDRAY_CLUSTER_FILE_CLUSTER_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/status.h"
#include "base/yaml.h"
#include "cluster/file/cluster_form.h"

namespace hvdray {

/// A machine of a cluster, with its number of workers.
struct ClusterHost {
  std::string address;
  int slots = 0;
  bool operator==(const ClusterHost&) const = default;
};

/// How to log in. Empty: not given.
struct ClusterAuth {
  std::string ssh_user;
  std::string ssh_private_key;
  std::string ssh_public_key;
  std::string ssh_proxy_command;       ///< ssh's ProxyCommand.
  bool is_proxied_by_node_id = false;  ///< ssh_proxy_use_node_id
};

/// A file or directory to copy to every node. As the file has them: `~` is not expanded.
struct ClusterFileMount {
  std::string remote;
  std::string local;
  bool operator==(const ClusterFileMount&) const = default;
};

/// The section `docker`, or that of a node type, which overrides it for its workers. Empty or
/// nullopt: not given.
struct ClusterDocker {
  std::string image;
  std::string container_name;
  std::optional<bool> pull_before_run;
  std::vector<std::string> run_options;
  std::string head_image;
  std::vector<std::string> head_run_options;
  std::string worker_image;
  std::optional<std::vector<std::string>> worker_run_options;
  bool disable_automatic_runtime_detection = false;
  bool disable_shm_size_detection = false;
  bool use_podman = false;
};

/// A kind of machine that the provider can create.
struct ClusterNodeType {
  std::string name;
  int64_t min_workers = 0;
  int64_t max_workers = 0;
  std::map<std::string, int64_t> resources;  ///< Empty: the provider knows.
  std::map<std::string, std::string> labels;
  std::vector<YamlNode::Entry> node_config;  ///< Provider-specific, unchecked.
  std::optional<double> idle_timeout_s;      ///< nullopt: the cluster's idle_timeout_minutes.
  int64_t priority = 0;
  /// Instead of the cluster's lists, for workers of this type.
  std::optional<std::vector<std::string>> initialization_commands;
  std::optional<std::vector<std::string>> worker_setup_commands;
  ClusterDocker docker;
};

/// The keys of `provider` that hvdray reads, with Ray's defaults filled in.
struct ClusterProvider {
  bool use_internal_ips = false;
  bool use_external_head_ip = false;
  bool disable_node_updaters = false;
  bool disable_launch_config_check = false;
  bool foreground_node_launch = false;
  bool worker_liveness_check = true;

  // aws
  std::string region;
  std::vector<std::string> availability_zones;  ///< In order of preference. Empty: any.
  bool cache_stopped_nodes = true;
  std::string key_name;                                ///< key_pair.key_name
  std::string security_group_name;                     ///< security_group.GroupName
  std::vector<YamlNode> security_group_rules;          ///< security_group.IpPermissions, unchecked.
  std::map<std::string, std::string> aws_credentials;  ///< boto3's arguments. Secret.
  std::optional<YamlNode> cloudwatch;                  ///< Unchecked.
};

/// The lists of shell commands as the file has them, with the provider's defaults.
struct ClusterCommands {
  std::vector<std::string> initialization;
  std::vector<std::string> setup;
  std::vector<std::string> head_setup;
  std::vector<std::string> worker_setup;
  std::vector<std::string> head_start;
  std::vector<std::string> worker_start;
};

/// The contents of a cluster file, with defaults filled in.
struct ClusterSpec {
  std::string cluster_name = "default";
  std::string provider_type;  ///< "local", "aws", "gcp", …
  ClusterProvider provider;
  ClusterAuth auth;
  double upscaling_speed = 1.0;
  double idle_timeout_minutes = 5;
  int64_t min_workers = 0;  ///< Workers are hosts here, without the head.
  int64_t max_workers = 0;

  // provider: {type: local}. head_ip is set unless a coordinator has the hosts.
  std::string head_ip;
  std::vector<std::string> worker_ips;  ///< Distinct, without the head. May be empty.
  std::string external_head_ip;         ///< The head's address outside the cluster's network.
  std::string coordinator_address;

  // What is done to nodes: see ToClusterNodeSetup().
  std::vector<ClusterFileMount> file_mounts;  ///< In the file's order.
  std::vector<std::string> cluster_synced_files;
  bool file_mounts_sync_continuously = false;
  std::vector<std::string> rsync_exclude;
  std::vector<std::string> rsync_filter;
  ClusterCommands commands;
  ClusterDocker docker;

  // The other providers; aws has two default types. Empty when the file leaves it to defaults of
  // another provider.
  std::string head_node_type;
  std::vector<ClusterNodeType> node_types;

  // hvdray: {…}
  std::optional<int> slots_per_host;
  bool falls_back_to_on_demand = false;  ///< Where there are no spot machines.
  std::optional<YamlNode> run;           ///< A map of job file keys, unchecked.

  /// The whole file: in the modern form, and that with the defaults of its provider, from which
  /// everything above was read. Both have the section `hvdray`. Always there after parsing.
  std::optional<YamlNode> modern;
  std::optional<YamlNode> resolved;
  bool is_translated = false;  ///< The file has keys that its modern form lacks: Ray refuses it.

  /// One line each, with its place: old keys that were translated or have no effect.
  std::vector<std::string> warnings;

  bool is_local() const { return provider_type == "local"; }
};

/// `file_name` is for messages only. Refuses unknown keys, except where the provider may have its
/// own. Translates keys of older Ray versions, with a warning for each.
/// Errors: kSpecInvalid with file:line:column and, for a misspelt key, the nearest known one.
/// kUsage for an override that has no place in the file.
Result<ClusterSpec> ParseClusterSpec(std::string_view text, std::string file_name,
                                     const ClusterOverrides& overrides = {});

/// A cluster's name becomes part of paths, tags and a security group's name. Errors: kUsage.
Status CheckClusterName(std::string_view name);

/// Reads and parses. Blocks. Errors: also kFileUnreadable.
Result<ClusterSpec> LoadClusterSpec(const std::string& path,
                                    const ClusterOverrides& overrides = {});

/// The head, then the workers (at most max_workers of them). `default_slots`: per host, where the
/// file has no slots_per_host.
/// Errors: kNotSupported for a file that doesn't list the hosts: one with another provider or a
/// coordinator.
Result<std::vector<ClusterHost>> ToClusterHosts(const ClusterSpec& spec, int default_slots);

enum class ClusterNodeKind : uint8_t { kHead, kWorker };

/// The container in which a node's setup and start commands run.
struct ClusterContainer {
  std::string image;
  std::string name;
  bool is_pulled = true;  ///< Before each start.
  std::vector<std::string> run_options;
  bool detects_runtime = true;   ///< Add --runtime=nvidia where it works.
  bool detects_shm_size = true;  ///< Add --shm-size unless given.
  bool is_podman = false;
};

/// What `up` does to one node, in this order. Commands are shell lines, each for a shell of its
/// own, without the exports (RAY_HEAD_IP, …) that precede them.
struct ClusterNodeSetup {
  std::vector<ClusterFileMount> file_mounts;
  std::vector<std::string> cluster_synced_files;  ///< From the head. Workers only.
  std::vector<std::string> rsync_exclude;         ///< For both.
  std::vector<std::string> rsync_filter;
  std::vector<std::string> initialization_commands;  ///< Outside the container.
  std::optional<ClusterContainer> container;
  std::vector<std::string> setup_commands;
  std::vector<std::string> start_commands;
};

/// Whether Ray's autoscaler on the head starts and ends the workers: the file leaves it room
/// (max_workers above min_workers) and starts the head with --autoscaling-config. Otherwise hvdray
/// starts them: on-prem all, elsewhere min_workers of each type.
bool IsAutoscaled(const ClusterSpec& spec);

/// `type`: a name among spec.node_types; ignored for the head and for local clusters. The start
/// commands have no --autoscaling-config unless IsAutoscaled(), even if the file says so. Pure.
/// Source: Ray's autoscaler/_private/{util,commands,autoscaler}.py.
ClusterNodeSetup ToClusterNodeSetup(const ClusterSpec& spec, ClusterNodeKind kind,
                                    std::string_view type = {});

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_FILE_CLUSTER_SPEC_H_
