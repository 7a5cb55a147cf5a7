// SPDX-License-Identifier: Apache-2.0
// A cluster file (the YAML of `ray up`, plus a section `hvdray`), checked as a whole. Pure except
// for LoadClusterSpec(); starts nothing and opens no connection.
#ifndef HVDRAY_CLUSTER_CLUSTER_SPEC_H_
#define HVDRAY_CLUSTER_CLUSTER_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/status.h"
#include "base/yaml.h"

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

/// A kind of machine that the provider can create.
struct ClusterNodeType {
  std::string name;
  int64_t min_workers = 0;
  int64_t max_workers = 0;
  std::map<std::string, int64_t> resources;  ///< Empty: the provider knows.
  std::vector<YamlNode::Entry> node_config;  ///< Provider-specific, unchecked.
};

/// The contents of a cluster file, with defaults filled in.
struct ClusterSpec {
  std::string cluster_name = "default";
  std::string provider_type;  ///< "local", "aws", "gcp", …
  ClusterAuth auth;
  int64_t min_workers = 0;  ///< Workers are hosts here, without the head.
  int64_t max_workers = 0;

  // provider: {type: local}. head_ip is set unless a coordinator has the hosts.
  std::string head_ip;
  std::vector<std::string> worker_ips;  ///< Distinct, without the head. May be empty.
  std::string external_head_ip;         ///< The head's address outside the cluster's network.
  std::string coordinator_address;

  // The other providers. Empty when the file leaves it to the provider's defaults.
  std::string head_node_type;
  std::vector<ClusterNodeType> node_types;

  // hvdray: {…}
  std::optional<int> slots_per_host;
  std::optional<YamlNode> run;  ///< A map of job file keys, unchecked.

  /// One line each, with its place: old keys that were translated or have no effect.
  std::vector<std::string> warnings;

  bool is_local() const { return provider_type == "local"; }
};

/// `file_name` is for messages only. Refuses unknown keys, except where the provider may have its
/// own. Translates keys of older Ray versions, with a warning for each.
/// Errors: kSpecInvalid with file:line:column and, for a misspelt key, the nearest known one.
Result<ClusterSpec> ParseClusterSpec(std::string_view text, std::string file_name);

/// Reads and parses. Blocks. Errors: also kFileUnreadable.
Result<ClusterSpec> LoadClusterSpec(const std::string& path);

/// The head, then the workers (at most max_workers of them). `default_slots`: per host, where the
/// file has no slots_per_host.
/// Errors: kNotSupported for a file that doesn't list the hosts: one with another provider or a
/// coordinator.
Result<std::vector<ClusterHost>> ClusterHostsOf(const ClusterSpec& spec, int default_slots);

// Steps of ParseClusterSpec().

/// Checks all keys and types of the document, but no rules that concern several values. Appends to
/// `warnings`. Errors: kSpecInvalid for the first fault in the file's order.
/// Source: Ray's cluster YAML schema (autoscaler/ray-schema.json).
Status CheckClusterSchema(const YamlNode& root, std::vector<std::string>& warnings);

/// Entry of `key` in `map`; nullptr when absent.
const YamlNode::Entry* FindEntry(const YamlNode& map, std::string_view key);

/// Fills head_node_type, node_types, min_workers and max_workers from a document that
/// CheckClusterSchema() accepted. For providers that create their machines (any but local).
/// `head_node` and `worker_nodes` become the types ray-legacy-head-node-type and
/// ray-legacy-worker-node-type, as in Ray's own translation.
/// Errors: kSpecInvalid with file:line:column.
Status ReadNodeTypes(const YamlNode& root, ClusterSpec& spec);

/// Raises min_workers to initial_workers, within max_workers. Newer Ray versions refuse that key,
/// so it causes a warning. Errors: kSpecInvalid.
Status RaiseToInitialWorkers(const YamlNode& root, ClusterSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLUSTER_SPEC_H_
