// What a cluster file says (the YAML of `ray up`, with a section of our own), checked whole. Pure
// but for LoadClusterSpec; starts nothing and reaches nobody.
#ifndef HVDRAY_CLUSTER_CLUSTER_SPEC_H_
#define HVDRAY_CLUSTER_CLUSTER_SPEC_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/yaml.h"

namespace hvdray {

/// A machine of a cluster and its room for workers.
struct ClusterHost {
  std::string address;
  int slots = 0;
  bool operator==(const ClusterHost&) const = default;
};

/// How to log in. Empty: not said.
struct ClusterAuth {
  std::string ssh_user;
  std::string ssh_private_key;
  std::string ssh_public_key;
  std::string ssh_proxy_command;       ///< ssh's ProxyCommand.
  bool is_proxied_by_node_id = false;  ///< ssh_proxy_use_node_id
};

/// A kind of machine that the provider can make.
struct ClusterNodeType {
  std::string name;
  int64_t min_workers = 0;
  int64_t max_workers = 0;
  std::map<std::string, int64_t> resources;  ///< Empty: the provider knows.
  std::vector<YamlNode::Entry> node_config;  ///< The provider's own words.
};

struct ClusterSpec {
  std::string cluster_name = "default";
  std::string provider_type;  ///< "local", "aws", "gcp", …
  ClusterAuth auth;
  int64_t min_workers = 0;  ///< Workers are hosts here, without the head.
  int64_t max_workers = 0;

  // provider: {type: local}. Without a coordinator the head is set, and so are the workers if any.
  std::string head_ip;
  std::vector<std::string> worker_ips;  ///< Distinct, none of them the head.
  std::string external_head_ip;         ///< The head as seen from outside its network.
  std::string coordinator_address;

  // The other providers. Empty when the file leaves it to the provider's defaults.
  std::string head_node_type;
  std::vector<ClusterNodeType> node_types;

  // hvdray: {…}
  std::optional<int> slots_per_host;
  std::optional<YamlNode> run;  ///< A map of job file keys, not looked into.

  /// One line each with its place: old keys that were translated or have no effect.
  std::vector<std::string> warnings;

  bool is_local() const { return provider_type == "local"; }
};

/// `file_name` is only for messages. Every key is known or the file is refused; what Ray's older
/// versions had is translated with a warning for each key (spec ray.md 3).
/// Errors: kSpecInvalid with file:line:column and, for a misspelt key, the nearest one.
Result<ClusterSpec> ParseClusterSpec(std::string_view text, std::string file_name);

/// Reads and parses. Blocks. Errors: also kFileUnreadable.
Result<ClusterSpec> LoadClusterSpec(const std::string& path);

/// The head, then the workers (at most max_workers of them). `default_slots`: for each host if
/// the file says nothing.
/// Errors: kNotSupported for a cluster whose hosts are not in the file: other providers, and a
/// coordinator.
Result<std::vector<ClusterHost>> ClusterHostsOf(const ClusterSpec& spec, int default_slots);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLUSTER_SPEC_H_
