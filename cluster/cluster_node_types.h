// The kinds of machines of a cluster file, those of its old form included.
#ifndef HVDRAY_CLUSTER_CLUSTER_NODE_TYPES_H_
#define HVDRAY_CLUSTER_CLUSTER_NODE_TYPES_H_

#include "base/status.h"
#include "base/yaml.h"
#include "cluster/cluster_spec.h"

namespace hvdray {

/// Fills head_node_type, node_types, min_workers and max_workers of a spec whose provider makes
/// its machines (any but local) from a document that CheckClusterSchema accepted.
/// `head_node` and `worker_nodes` become the types that Ray's own translation named
/// ray-legacy-head-node-type and ray-legacy-worker-node-type.
/// Errors: kSpecInvalid with file:line:column. Source: ray.md 3.1, 3.3.
Status ReadNodeTypes(const YamlNode& root, ClusterSpec& spec);

/// initial_workers, which newer Rays refuse: min_workers becomes at least that, within max_workers.
/// Warns that the key is old. Errors: kSpecInvalid.
Status RaiseToInitialWorkers(const YamlNode& root, ClusterSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_CLUSTER_NODE_TYPES_H_
