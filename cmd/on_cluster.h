// SPDX-License-Identifier: Apache-2.0
// What the commands on a cluster file begin and end with.
#ifndef HVDRAY_CMD_ON_CLUSTER_H_
#define HVDRAY_CMD_ON_CLUSTER_H_

#include <functional>
#include <string_view>

#include "base/result.h"
#include "cluster/access/cluster_access.h"
#include "cmd/commands.h"

namespace hvdray {

/// What a command does on its cluster. Returns an exit code.
using ClusterFn = std::function<Result<int>(ClusterAccess& access, const CommandRequest& request)>;

/// Resolves the words, opens the file that the first one names, and calls `run`, unless the cluster
/// is left to Ray. Prints errors. Returns the exit code.
int OnCluster(std::string_view command, const CommandLine& line, const ClusterFn& run);
int OnCluster(std::string_view command, const CommandRequest& request, const ClusterFn& run);

/// The same for a command that also takes a Ray cluster by its address: whatever the provider.
int OnFile(std::string_view command, const CommandRequest& request, const ClusterFn& run);

}  // namespace hvdray

#endif  // HVDRAY_CMD_ON_CLUSTER_H_
