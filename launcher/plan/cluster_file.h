// SPDX-License-Identifier: Apache-2.0
// A cluster file as the commands take it. Blocks.
#ifndef HVDRAY_LAUNCHER_PLAN_CLUSTER_FILE_H_
#define HVDRAY_LAUNCHER_PLAN_CLUSTER_FILE_H_

#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/file/cluster_spec.h"
#include "launcher/job/option_layers.h"

namespace hvdray {

/// Reads `path` with what `said` has of --cluster-name, --min-workers and --max-workers, checks it
/// whole, the section `run` too, and tells each warning to stderr in the name of `command`.
/// Errors: those of LoadClusterSpec() and CheckRunSection().
Result<ClusterSpec> ReadClusterFile(std::string_view command, const std::string& path,
                                    const LayerStack& said);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_CLUSTER_FILE_H_
