// SPDX-License-Identifier: Apache-2.0
// What the head of a cluster in a cloud gets so that Ray's own autoscaler there makes workers as
// `ray up` would have it, and what Ray has to know on each machine. Pure.
#ifndef HVDRAY_CLUSTER_UP_BOOTSTRAP_CONFIG_H_
#define HVDRAY_CLUSTER_UP_BOOTSTRAP_CONFIG_H_

#include <string>
#include <string_view>
#include <vector>

#include "cluster/cloud/provider.h"
#include "cluster/file/cluster_spec.h"

namespace hvdray {

/// Names in the home directory on the head, from where start commands and Ray read them.
inline constexpr std::string_view kBootstrapConfigName = "ray_bootstrap_config.yaml";
inline constexpr std::string_view kBootstrapKeyName = "ray_bootstrap_key.pem";

/// The cluster file as Ray puts it on the head: with defaults, with what the provider filled in,
/// set-up lists joined, file mounts from where they are on the head, the key at its name there, and
/// without a proxy command. JSON, which is YAML. Secret if the file has credentials.
/// Source: Ray 2.60's autoscaler/_private/commands.py (_set_up_config_for_head_node) and util.py.
std::string BootstrapConfig(const ClusterSpec& spec, const PreparedCluster& prepared);

/// NAME=VALUE for the start commands of `node`: which machine Ray is on, what it may place there,
/// its labels.
/// Source: Ray 2.60's autoscaler/_private/updater.py and _private/constants.
std::vector<std::string> RayExports(const ClusterSpec& spec, const PreparedCluster& prepared,
                                    const CloudNode& node);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_BOOTSTRAP_CONFIG_H_
