// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/actions.h"
#include "cmd/on_cluster.h"

namespace hvdray {

int DashboardCommand(const CommandLine& line) {
  return OnCluster("dashboard", line, &ForwardDashboard);
}

}  // namespace hvdray
