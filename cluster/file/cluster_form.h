// SPDX-License-Identifier: Apache-2.0
// The forms of a cluster file, from tree to tree: the older one becomes the modern one, defaults
// fill it, Ray gets its part. Pure. All take documents that CheckClusterSchema() has accepted.
#ifndef HVDRAY_CLUSTER_FILE_CLUSTER_FORM_H_
#define HVDRAY_CLUSTER_FILE_CLUSTER_FORM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/yaml.h"

namespace hvdray {

/// What options of a command change in a cluster file.
struct ClusterOverrides {
  std::optional<std::string> cluster_name;
  std::optional<int64_t> min_workers;  ///< Of the only type of workers.
  std::optional<int64_t> max_workers;
};

/// Of Ray, for all of its clouds.
inline constexpr int64_t kDefaultMaxWorkers = 2;

/// `root` with `overrides` and without keys of older Ray versions. Ray refuses those; hvdray
/// translates them: `head_node` and `worker_nodes` become the types ray-legacy-head-node-type and
/// ray-legacy-worker-node-type, as in Ray's own translation; initial_workers raises min_workers;
/// min_workers becomes that of the worker type. Adds a warning for each that CheckClusterSchema()
/// has not told. Keeps the order of the keys.
/// Errors: kSpecInvalid with file:line:column; kUsage for an override that has no place.
Result<YamlNode> ModernCluster(const YamlNode& root, const ClusterOverrides& overrides,
                               std::vector<std::string>& warnings);

/// A modern document with the defaults of its provider, keys in the schema's order. As in Ray, a
/// list of the file replaces the default one. Other providers than local and aws have defaults that
/// only Ray knows: for them it only adds a cluster_name.
/// Source: Ray's autoscaler/{local,aws}/defaults.yaml. Where Ray's aws commands install a nightly
/// build for one version of Python, these install the release that hvdray is tested with; and its
/// dashboard listens on loopback only.
YamlNode WithClusterDefaults(const YamlNode& modern);

/// What Ray takes: without the section `hvdray`.
YamlNode RayCluster(const YamlNode& document);

/// What hvdray does: on-prem without --autoscaling-config, since hvdray starts the workers itself.
YamlNode HvdrayCluster(const YamlNode& document);

/// `command` without the option --autoscaling-config and its value.
std::string WithoutAutoscaling(std::string command);

/// A number of workers under `key`; `fallback` when absent. Errors: kSpecInvalid.
Result<int64_t> CountOr(const YamlNode& map, std::string_view key, int64_t fallback);

/// Entry of `key` in `map`; nullptr when absent.
const YamlNode::Entry* FindEntry(const YamlNode& map, std::string_view key);

/// `map` with `value` under `key`, in the old place if it was there.
YamlNode WithEntry(const YamlNode& map, std::string_view key, YamlNode value);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_FILE_CLUSTER_FORM_H_
