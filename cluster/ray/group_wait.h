// SPDX-License-Identifier: Apache-2.0
// The wait for a placement group: decides when it is ready, when to give up, and what to tell the
// user meanwhile. Pure: takes the broker's events and the time.
#ifndef HVDRAY_CLUSTER_RAY_GROUP_WAIT_H_
#define HVDRAY_CLUSTER_RAY_GROUP_WAIT_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "cluster/ray/broker_messages.h"
#include "cluster/ray/ray_node.h"
#include "cluster/ray/ray_request.h"

namespace hvdray {

/// Converts the broker's table of nodes.
std::vector<RayNode> RayNodesOf(const BrokerNodes& nodes);

/// How long to wait, and for what.
struct GroupWaitOptions {
  Duration limit{std::chrono::seconds(100)};  ///< --placement-group-timeout.
  /// Nodes may be added, so a request that no node can hold now is worth waiting for.
  bool can_grow = true;
};

/// Times passed to one object never go back.
class GroupWait {
 public:
  enum class State : uint8_t { kWaiting, kCreated, kFailed };

  /// `request`: the slots that messages compare with the nodes. Expects a group of its bundles.
  GroupWait(RayRequest request, GroupWaitOptions options, TimePoint began);

  /// Waits for another group from now on, with `bundles` bundles.
  void Expect(size_t bundles);
  void OnNodes(const BrokerNodes& nodes);
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
  const GroupWaitOptions options_;
  const TimePoint began_;
  std::vector<RayNode> nodes_;
  BrokerGroup group_;
  size_t bundles_;
  std::optional<TimePoint> infeasible_since_;
  TimePoint next_line_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_GROUP_WAIT_H_
