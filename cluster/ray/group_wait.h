// SPDX-License-Identifier: Apache-2.0
// The wait for a placement group: decides when it is ready, when to give up, and what to tell the
// user meanwhile; turns the group into hosts with slots, and a place for each host's agent. Pure:
// takes the broker's events and the time.
#ifndef HVDRAY_CLUSTER_RAY_GROUP_WAIT_H_
#define HVDRAY_CLUSTER_RAY_GROUP_WAIT_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/host_slots.h"
#include "base/status.h"
#include "base/types.h"
#include "cluster/ray/broker_messages.h"
#include "cluster/ray/ray_transport.h"
#include "launcher/job/ray_node.h"
#include "launcher/job/ray_request.h"

namespace hvdray {

/// Times passed to one object never go back.
class GroupWait {
 public:
  enum class State : uint8_t { kWaiting, kCreated, kFailed };

  /// `request`: the slots that messages compare with the nodes. Expects a group of its bundles.
  /// `limit`: --placement-group-timeout. `can_grow`: nodes may be added, so a request that no node
  /// can hold now is worth waiting for.
  GroupWait(RayRequest request, Duration limit, bool can_grow, TimePoint began);

  /// Waits for another group from now on, with `bundles` bundles.
  void Expect(size_t bundles);
  void OnNodes(const BrokerNodes& nodes) { nodes_ = nodes; }
  void OnGroup(const BrokerGroup& group, TimePoint now);

  /// kCreated: each bundle of group() is on a live node of nodes().
  State Look(TimePoint now) const;
  const BrokerGroup& group() const { return group_; }
  const std::vector<RayNode>& nodes() const { return nodes_; }

  /// Only for kFailed. kNoCapacity: the limit has passed; kInfeasible: the nodes can't hold the
  /// group and none can be added; kRayFailed: Ray refused or removed it.
  Status failure(TimePoint now) const;

  /// A status line for the user when one is due: after one second, then every ten.
  std::optional<std::string> TakeLine(TimePoint now);
  /// When the result of Look() or TakeLine() may change without an event.
  TimePoint NextDeadline() const;

 private:
  std::string MissingText() const;
  bool IsPlaced() const;
  bool IsHopeless(TimePoint now) const;

  const RayRequest request_;
  const Duration limit_;
  const bool can_grow_;
  const TimePoint began_;
  std::vector<RayNode> nodes_;
  BrokerGroup group_;
  size_t bundles_;
  std::optional<TimePoint> infeasible_since_;
  TimePoint next_line_;
};

/// One host per node that has a bundle, in the order of first bundles. So the ranks of a node are
/// contiguous, whatever the order of Ray's bundles.
struct RayPlacement {
  std::vector<HostSlots> hosts;
  // In the order of `hosts`, one each.
  std::vector<std::string> node_ids;
  std::vector<std::string> ips;
  std::vector<RayEndpointPlace> places;
};

/// `group` must be created, with a node of `nodes` for each bundle of `request`.
RayPlacement PlaceGroup(const RayRequest& request, const BrokerGroup& group,
                        std::span<const RayNode> nodes);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_GROUP_WAIT_H_
