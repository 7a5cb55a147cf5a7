// SPDX-License-Identifier: Apache-2.0
// The hosts of an elastic job on Ray, as a HostSource: nodes on which the job holds a placement
// group.
#ifndef HVDRAY_CLUSTER_RAY_RAY_HOSTS_H_
#define HVDRAY_CLUSTER_RAY_RAY_HOSTS_H_

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/loop.h"
#include "cluster/ray/ray_broker.h"
#include "cluster/ray/ray_host_plan.h"
#include "cluster/ray/ray_transport.h"
#include "launcher/engine/host_source.h"

namespace hvdray {

/// What a job wants from Ray, and whom to tell.
struct RayHostsOptions {
  RayHostPolicy policy;
  /// With fewer slots, `say` reports it every ten seconds.
  int wanted_slots = 1;
  std::function<void(std::string_view line)> say;  ///< Lines for the user. Optional.
  /// Ray drains the host's node, which leaves in `in`. Once per node. Optional.
  std::function<void(const std::string& host, Duration in)> on_leaving = {};
};

/// Applies the orders of a RayHostPlan. Threads: the loop's. Loop, broker and transport outlive it.
class RayHosts final : public HostSource {
 public:
  RayHosts(Loop& loop, RayBroker& broker, RayTransport& transport, RayHostsOptions options);

  /// Needs a broker that watches nodes. Begins with the last table that OnNodes() has got.
  Status Start(Handlers handlers) override;
  /// Makes no more requests; the job keeps its slots until the broker is destroyed.
  void Stop() override;

  // Call these with the events of broker and transport.
  void OnNodes(const BrokerNodes& nodes);
  void OnGroup(const BrokerGroup& group);
  void OnEndpoint(const std::string& host, bool is_live);

  /// As RayHostPlan::Limit(): `hosts` are addresses of nodes.
  void Limit(const std::vector<HostSlots>& hosts);

  const RayHostPlan& plan() const { return plan_; }

 private:
  void TellLeaving(const BrokerNodes& nodes);
  void Apply(const RayHostPlan::Orders& orders);
  void Arm();
  void SayWhatIsMissing();

  Loop& loop_;
  RayBroker& broker_;
  RayTransport& transport_;
  const RayHostsOptions options_;
  RayHostPlan plan_;
  Handlers handlers_;
  bool is_running_ = false;
  bool has_told_ = false;
  std::optional<BrokerNodes> nodes_;  // The last table.
  std::set<std::string> leaving_;     // Nodes that were reported.
  Watch first_;
  Watch timer_;
  Watch say_timer_;
  Watch tell_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_HOSTS_H_
