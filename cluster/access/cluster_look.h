// SPDX-License-Identifier: Apache-2.0
// Looks at the cluster of a cluster file: for `status FILE` and `monitor FILE`.
#ifndef HVDRAY_CLUSTER_ACCESS_CLUSTER_LOOK_H_
#define HVDRAY_CLUSTER_ACCESS_CLUSTER_LOOK_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "base/result.h"
#include "cluster/access/cluster_access.h"
#include "cluster/ray/ray_report.h"

namespace hvdray {

/// One way to a cluster for many looks; finds it anew when a look has failed. Threads: one caller
/// at a time.
class ClusterLook {
 public:
  explicit ClusterLook(ClusterAccess access) : access_(std::move(access)) {}
  /// Blocks. If a cloud has machines of the cluster, it is no error that their Ray does not answer:
  /// the view's ray_status says so. Errors: those of FindRayOnHead() and LookAtCluster().
  Result<ClusterView> Look();

 private:
  Result<ClusterView> LookAtRay();
  bool AreNodesNew(const ClusterView& view);

  ClusterAccess access_;
  HeadLink link_;
  std::optional<RayAccess> ray_;    // needs link_
  std::set<std::string> seen_ids_;  // of Ray's nodes, when the head was asked for members
};

/// This moment in milliseconds since 1970, as in a ClusterView.
int64_t WallMs();

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_ACCESS_CLUSTER_LOOK_H_
