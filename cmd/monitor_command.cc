// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/actions.h"
#include "cmd/on_cluster.h"

namespace hvdray {

int MonitorCommand(const CommandLine& line) { return OnCluster("monitor", line, &MonitorCluster); }

}  // namespace hvdray
