// SPDX-License-Identifier: Apache-2.0
// What commands do on a cluster that runs, named by its file. All block and return an exit code.
#ifndef HVDRAY_CLUSTER_ACCESS_ACTIONS_H_
#define HVDRAY_CLUSTER_ACCESS_ACTIONS_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/access/cluster_access.h"
#include "launcher/engine/directory_list.h"

namespace hvdray {

// exec.cc. The words after FILE as a command on a node, and a shell there: the system's ssh in our
// place.
Result<int> ExecOnCluster(ClusterAccess& access, const CommandRequest& request);
Result<int> AttachToCluster(ClusterAccess& access, const CommandRequest& request);

// submit_script.cc. A script is copied to the head and run there.
Result<int> SubmitScript(ClusterAccess& access, const CommandRequest& request);
/// {"dir", "train.py"} of "dir/train.py".
std::pair<std::string, std::string> DirectoryAndName(const std::string& path);
/// Errors: kFileUnreadable.
Status CheckScript(const std::string& script);

// rsync.cc. The system's rsync, or what `hvdray run --sync` does.
/// Becomes `hvdray run` with these words and these rules for --sync. Returns its exit code.
using RunJobFn =
    std::function<int(const std::vector<std::string>& words, const DirectoryRules& rules)>;
Result<int> RsyncUp(ClusterAccess& access, const CommandRequest& request, const RunJobFn& run);
Result<int> RsyncDown(ClusterAccess& access, const CommandRequest& request);

// monitor.cc. Looks at the cluster again and again, and shows what it sees, until a signal.
Result<int> MonitorCluster(ClusterAccess& access, const CommandRequest& request);

// dashboard.cc. A tunnel to the dashboard on the head, until a signal.
Result<int> ForwardDashboard(ClusterAccess& access, const CommandRequest& request);

// node_logs.cc. Ray's logs of one node.
Result<int> ShowNodeLogs(ClusterAccess& access, const CommandRequest& request);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_ACCESS_ACTIONS_H_
