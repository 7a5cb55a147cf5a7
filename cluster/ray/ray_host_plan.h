// Which slots an elastic job holds on a Ray cluster, and which it asks for: a placement group on
// each node that has room, pinned to it, and one more where room is made later; a host is there
// when its group is. What it lacks of the slots that it wants stands as a pending group, of which
// Ray's autoscaler hears. Pure: takes what the broker tells and the time, returns what to do.
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
#include "cluster/ray/ray_node.h"
#include "cluster/ray/ray_request.h"
#include "cluster/ray/ray_transport.h"

namespace hvdray {

struct RayHostPolicy {
  std::string group_prefix;  ///< "hvdray-<job>": its groups are "<prefix>-1" and so on.
  RayAsk ask;                ///< What a slot is made of.
  int max_slots = 1;         ///< Of all hosts that are in use or may be.
  /// What is missing of so many slots is asked of an autoscaler. 0: there is none.
  int wanted_slots = 0;
  /// A host whose agent has ended may be wanted again; else its slots are given back and its node
  /// is left alone from then on.
  bool has_cooldown = false;
  /// As evenly over the nodes as their room allows (SPREAD); else few nodes, each with all it has.
  bool is_spread = false;
  /// Nodes to use, by address; empty: all.
  std::set<std::string> only_ips;
  /// How long a group may be pending before it is given up: somebody else was faster.
  Duration patience = std::chrono::seconds(10);
  /// How long its node is then left alone.
  Duration pause = std::chrono::seconds(10);
  /// After a change on a node what Ray says is free there may still be from before it.
  Duration settle = std::chrono::seconds(3);
};

class RayHostPlan {
 public:
  struct Orders {
    std::vector<BrokerReserve> reserve;
    std::vector<std::string> release;  ///< Groups.
    std::vector<std::pair<std::string, RaySeatPlace>> placed;
    std::vector<std::string> removed;  ///< Hosts whose place is gone.
    bool has_news = false;             ///< hosts() is another list.
  };

  explicit RayHostPlan(RayHostPolicy policy) : policy_(std::move(policy)) {}

  Orders OnNodes(const BrokerNodes& nodes, TimePoint now);
  Orders OnGroup(const BrokerGroup& group, TimePoint now);
  /// An agent of that host is being started, or its last one has ended.
  Orders OnSeat(const std::string& host, bool is_live, TimePoint now);
  Orders Tick(TimePoint now);
  /// When Tick() may have work.
  std::optional<TimePoint> NextDeadline() const;

  /// In the order in which they came.
  std::vector<HostSlots> hosts() const;
  const std::vector<RayNode>& nodes() const { return nodes_; }
  int held_slots() const;
  /// Those of hosts() that are on this node.
  std::vector<std::string> HostsOn(const std::string& node_id) const;
  /// Address of the node of one of hosts(); empty: it is none.
  std::string IpOf(const std::string& host) const;

 private:
  struct Group {
    std::string name;
    std::string node_id;  ///< Wanted; that of the host once it is there.
    std::string host;     ///< Empty: pending.
    int slots = 0;
    TimePoint asked{};
    TimePoint came{};  ///< When it was there.
    bool is_settled = false;
    bool is_idle = false;  ///< Its agent has ended.
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

  const RayHostPolicy policy_;
  std::vector<RayNode> nodes_;
  std::vector<Group> groups_;
  std::string demand_;    // The group that stands for what is missing; empty: none.
  int demand_slots_ = 0;  // Of it.
  std::optional<TimePoint> demand_after_;     // When there may be another one.
  std::map<std::string, std::string> names_;  // Node that each name was given to.
  std::map<std::string, TimePoint> paused_;   // Nodes, until then.
  std::set<std::string> banned_;              // Nodes.
  int next_group_ = 1;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_RAY_RAY_HOST_PLAN_H_
