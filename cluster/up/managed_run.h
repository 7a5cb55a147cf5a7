// SPDX-License-Identifier: Apache-2.0
// One run of a driver on the nodes of a cluster file: what `hvdray up` and `hvdray down` share. It
// opens the agents, the display, the events and the report, and says how it ended.
#ifndef HVDRAY_CLUSTER_UP_MANAGED_RUN_H_
#define HVDRAY_CLUSTER_UP_MANAGED_RUN_H_

#include <vector>

#include "base/result.h"
#include "cluster/up/cluster_driver.h"
#include "cluster/up/managed_cluster.h"
#include "cluster/up/node_files.h"

namespace hvdray {

/// A run to its end.
struct ClusterEnd {
  int exit_code = 0;
  int signo = 0;                ///< Not 0: interrupted by it.
  bool is_stdout_gone = false;  ///< Nothing more can be printed.
  Status failure;  ///< Beside those of the nodes: what it prints, or a file, is not whole.
  std::vector<NodeRow> nodes;

  /// Why exit_code is not 0.
  Status error() const;
};

/// Runs the driver on the hosts, with the events and the report that the options ask for. Blocks.
/// Errors: nothing has been started.
Result<ClusterEnd> RunCluster(ManagedCluster& cluster, ClusterDriver& driver,
                              const NodeFiles& files);

/// Writes the events and the report of a run without a driver: a first and a last line, and `end`.
/// Returns the exit code of `end`, or that of a file that can't be written. Blocks.
int FinishReport(const ManagedCluster& cluster, ClusterEnd end);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_MANAGED_RUN_H_
