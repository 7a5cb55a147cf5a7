// SPDX-License-Identifier: Apache-2.0
#include "cluster/access/cluster_look.h"

#include <chrono>

namespace hvdray {
namespace {

CloudMachine ToCloudMachine(const CloudNode& node) {
  return {.id = node.id,
          .address = node.internal_address,
          .external_address = node.external_address,
          .type = node.machine_type,
          .is_head = node.kind == ClusterNodeKind::kHead,
          .is_spot = node.is_spot,
          .is_running = node.state == CloudState::kRunning,
          .state = std::string(CloudStateWord(node.state)),
          .status = node.status,
          .reason = node.state_reason};
}

}  // namespace

int64_t WallMs() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

Result<ClusterView> ClusterLook::LookAtRay() {
  if (!ray_) {
    link_ = {};
    HVDRAY_ASSIGN_OR_RETURN(ray_, FindRayOnHead(access_, link_));
  } else {
    HVDRAY_RETURN_IF_ERROR(FindNodes(access_));
  }
  Result<ClusterView> view = LookAtCluster(ray_->Copy(), WallMs());
  if (!view.ok()) ray_.reset();
  return view;
}

/// Whether the head may know more than when it was asked last.
bool ClusterLook::AreNodesNew(const ClusterView& view) {
  std::set<std::string> ids;
  for (const RayNode& node : view.cluster.nodes) ids.insert(node.id);
  return std::exchange(seen_ids_, ids) != ids;
}

Result<ClusterView> ClusterLook::Look() {
  access_.nodes = {};
  Result<ClusterView> view = LookAtRay();
  const ClusterNodes& nodes = access_.nodes;
  if (!view.ok()) {
    // A cloud's machines are worth a look before Ray runs, and after it died.
    if (nodes.cloud.empty()) return view;
    Status why = std::move(view).status();
    view = ClusterView();
    view->now_ms = WallMs();
    view->ray_status = std::move(why);
  }
  view->name = access_.file.cluster_name;
  view->file = access_.path;
  if (!HasProvider(access_.file)) {
    view->machines.push_back(access_.file.head_ip);
    for (const ClusterNode& worker : nodes.workers) view->machines.push_back(worker.address);
  }
  for (const CloudNode& node : nodes.cloud) view->cloud.push_back(ToCloudMachine(node));
  if (access_.members) view->members = *access_.members;
  if (NeedsMembers(*view) && AreNodesNew(*view)) {
    access_.members.reset();
    view->members = FindMembers(access_);
  }
  return view;
}

}  // namespace hvdray
