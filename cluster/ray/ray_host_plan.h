// SPDX-License-Identifier: Apache-2.0
// Decides which slots an elastic job holds and requests on a Ray cluster. It reserves a placement
// group on each node with room, pinned to the node, and another one when more room appears there.
// Each created group is a host. The slots that the job still lacks are a pending group, which Ray's
// autoscaler sees. Pure: takes the broker's events and the time, returns what to do.
#ifndef HVDRAY_CLUSTER_RAY_RAY_HOST_PLAN_H_
#define HVDRAY_CLUSTER_RAY_RAY_HOST_PLAN_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/host_slots.h"
#include "base/types.h"
#include "cluster/ray/broker_messages.h"
#include "cluster/ray/ray_transport.h"
#include "launcher/job/ray_node.h"
#include "launcher/job/ray_request.h"

namespace hvdray {

/// What the job wants, and the times to wait.
struct RayHostPolicy {
  std::string group_prefix;  ///< "hvdray-<job>": its groups are "<prefix>-1" and so on.
  RayAsk ask;                ///< The resources of a slot.
  int max_slots = 1;         ///< Limit for all groups, created or pending.
  /// Slots up to this number that the job lacks are requested from an autoscaler. 0: there is none.
  int wanted_slots = 0;
  /// A host whose agent has ended may be used again. False: release its slots and never use its
  /// node again.
  bool has_cooldown = false;
  /// Spread slots evenly over the nodes as far as room allows (SPREAD); false: fill few nodes.
  bool is_spread = false;
  /// Nodes to use, by address; empty: all.
  std::set<std::string> only_ips;
  /// How long a group may be pending before it is given up, because another job was faster.
  Duration patience = std::chrono::seconds(10);
  /// How long the plan then avoids its node.
  Duration pause = std::chrono::seconds(10);
  /// How long Ray's report of a node's free resources may be older than a change there.
  Duration settle = std::chrono::seconds(3);
};

/// Times passed to one object never go back.
class RayHostPlan {
 public:
  /// What to do: first the releases, then the reservations.
  struct Orders {
    std::vector<BrokerReserve> reserve;
    std::vector<std::string> release;                              ///< Names of groups.
    std::vector<std::pair<std::string, RayEndpointPlace>> placed;  ///< New hosts and their places.
    std::vector<std::string> removed;  ///< Hosts that lost their places.
    bool has_news = false;             ///< hosts() has changed.
  };

  explicit RayHostPlan(RayHostPolicy policy) : policy_(std::move(policy)) {}

  /// From now on: only nodes at these addresses, each with at most as many slots. What the job
  /// holds beyond that is no longer in hosts(), and given back once no agent lives there. No new
  /// nodes are asked for.
  Orders Limit(std::map<std::string, int> slots_by_ip, TimePoint now);

  /// All nodes of the cluster, which replace the last table. Gives up what was held or requested
  /// on nodes that are dead or no longer listed, and reserves what there is room for.
  Orders OnNodes(const BrokerNodes& nodes, TimePoint now);
  /// The state of a placement group. A created one becomes a host. One that Ray refuses, moves or
  /// removes is given up and its node avoided for the policy's pause. Ignores groups that were
  /// released.
  Orders OnGroup(const BrokerGroup& group, TimePoint now);
  /// is_live: an agent of that host is being started; false: its last one has ended.
  Orders OnEndpoint(const std::string& host, bool is_live, TimePoint now);
  /// Does the work that is due by time alone.
  Orders Tick(TimePoint now);
  /// When Tick() may have work; nullopt: only an event can change anything.
  std::optional<TimePoint> NextDeadline() const;

  /// In the order in which their groups were created.
  std::vector<HostSlots> hosts() const;
  const std::vector<RayNode>& nodes() const { return nodes_; }
  /// Slots of all hosts whose agent has not ended.
  int held_slots() const;
  /// The hosts on this node.
  std::vector<std::string> HostsOn(const std::string& node_id) const;
  /// Address of a host's node; empty: not a host.
  std::string IpOf(const std::string& host) const;

 private:
  struct Group {
    std::string name;
    std::string node_id;  ///< The requested node; once created, the actual one.
    std::string host;     ///< Empty: pending.
    int slots = 0;
    TimePoint asked{};
    TimePoint came{};  ///< Time of creation.
    bool is_settled = false;
    bool has_agent = false;   ///< One that has not ended.
    bool is_idle = false;     ///< Its agent has ended.
    bool is_leaving = false;  ///< Beyond the limit: given back when its agent has ended.
  };
  void Grow(TimePoint now, Orders* orders);
  void AskForNodes(TimePoint now, Orders* orders);
  Orders OnDemand(const BrokerGroup& group, TimePoint now);
  int TakenSlots() const;
  void Drop(size_t index, Orders* orders);
  std::string NameFor(const std::string& node_id);
  const RayNode* Find(const std::string& node_id) const;
  bool IsUsable(const RayNode& node, TimePoint now) const;
  bool IsInUse(const std::string& host) const;
  std::vector<int> SlotsOfNodes(int room, TimePoint now) const;
  BrokerReserve ReserveOn(const RayNode& node, int slots);

  /// Slots that the job may take on this node, besides those it holds there.
  int RoomOn(const RayNode& node) const;

  const RayHostPolicy policy_;
  std::optional<std::map<std::string, int>> limits_;  // By address.
  std::vector<RayNode> nodes_;
  std::vector<Group> groups_;
  std::string demand_;                        // Name of the group for missing slots; empty: none.
  int demand_slots_ = 0;                      // Its slots.
  std::optional<TimePoint> demand_after_;     // Earliest time of the next one.
  std::map<std::string, std::string> names_;  // Node id by host name, for all names ever given.
  std::map<std::string, TimePoint> paused_;   // Nodes to avoid, with the end of their pause.
  std::set<std::string> banned_;              // Nodes to avoid for good.
  int next_group_ = 1;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_HOST_PLAN_H_
