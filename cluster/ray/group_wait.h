// The wait for a placement group: what to tell the person meanwhile, when it is there, when it is
// given up. Pure: takes what the broker tells and the time.
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

/// Ray's table as cluster/ray's pure parts take it.
std::vector<RayNode> RayNodesOf(const BrokerNodes& nodes);

struct GroupWaitOptions {
  Duration limit{std::chrono::seconds(100)};  ///< --placement-group-timeout.
  /// Nodes may be added, so that what no node can hold now is worth waiting for.
  bool can_grow = true;
};

class GroupWait {
 public:
  enum class State : uint8_t { kWaiting, kCreated, kFailed };

  /// request: the slots, of which it is said what is missing.
  GroupWait(RayRequest request, GroupWaitOptions options, TimePoint began);

  /// From now on another group is waited for, of so many bundles. Until then: of those of
  /// `request`.
  void Expect(size_t bundles);
  void OnNodes(const BrokerNodes& nodes);
  void OnGroup(const BrokerGroup& group, TimePoint now);

  /// kCreated: each bundle of group() is on a node of nodes().
  State Look(TimePoint now) const;
  const BrokerGroup& group() const { return group_; }
  const std::vector<RayNode>& nodes() const { return nodes_; }

  /// Only of kFailed. kNoCapacity: the limit has passed; kInfeasible: the nodes can't hold it and
  /// none can be added; kRayFailed: Ray itself says no.
  Status failure(TimePoint now) const;

  /// A line that is due: after a second, then every ten.
  std::optional<std::string> TakeLine(TimePoint now);
  /// When Look() or TakeLine() may say something new by time alone.
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
