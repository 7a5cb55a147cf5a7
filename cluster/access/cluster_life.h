// SPDX-License-Identifier: Apache-2.0
// --start and --stop of the commands on a cluster: `hvdray up` before, `hvdray down` after.
#ifndef HVDRAY_CLUSTER_ACCESS_CLUSTER_LIFE_H_
#define HVDRAY_CLUSTER_ACCESS_CLUSTER_LIFE_H_

#include <functional>

#include "base/result.h"
#include "cluster/access/cluster_access.h"

namespace hvdray {

/// Calls `body` and returns its exit code. With --start, runs `hvdray up --yes` first, and with
/// --stop `hvdray down --yes` last, in processes of their own whose output goes to our stderr.
/// When up fails, its code is returned and `body` is not called. When down fails and `body` did
/// not, down's code is. Without either option, only calls `body`. Blocks. Errors: those of `body`;
/// kUsage for options that `body` would refuse or that do not go with --stop, before anything
/// runs; those of RunInForeground().
Result<int> RunWithCluster(const ClusterAccess& access, const CommandRequest& request,
                           const std::function<Result<int>()>& body);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_ACCESS_CLUSTER_LIFE_H_
