// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/ray_host_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "cluster/ray/group_wait.h"
#include "launcher/job/ray_request.h"

namespace hvdray {
namespace {

constexpr double kPin = 0.001;
constexpr size_t kShortId = 8;

}  // namespace

RayHostPlan::Orders RayHostPlan::OnNodes(const BrokerNodes& nodes, TimePoint now) {
  Orders orders;
  nodes_ = nodes;
  for (size_t i = groups_.size(); i-- > 0;) {
    const RayNode* node = Find(groups_[i].node_id);
    if (node == nullptr || !node->is_alive) Drop(i, &orders);
  }
  Grow(now, &orders);
  return orders;
}

RayHostPlan::Orders RayHostPlan::Limit(std::map<std::string, int> slots_by_ip, TimePoint now) {
  Orders orders;
  limits_ = std::move(slots_by_ip);
  for (Group& group : groups_) {
    const RayNode* node = Find(group.node_id);
    if (!group.is_leaving || node == nullptr || RoomOn(*node) < group.slots) continue;
    group.is_leaving = false;  // Wanted again, and its agent is still there.
    orders.has_news = true;
  }
  for (size_t i = groups_.size(); i-- > 0;) {  // The newest first.
    const RayNode* node = Find(groups_[i].node_id);
    if (groups_[i].is_leaving || node == nullptr || RoomOn(*node) >= 0) continue;
    if (!groups_[i].has_agent) {
      Drop(i, &orders);
      continue;
    }
    groups_[i].is_leaving = true;
    orders.has_news = true;
  }
  Grow(now, &orders);
  return orders;
}

RayHostPlan::Orders RayHostPlan::OnGroup(const BrokerGroup& told, TimePoint now) {
  if (!demand_.empty() && told.name == demand_) return OnDemand(told, now);
  Orders orders;
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [&told](const Group& group) { return group.name == told.name; });
  if (found == groups_.end()) return orders;  // released meanwhile
  const auto index = static_cast<size_t>(found - groups_.begin());
  const bool is_there = told.state == BrokerGroupState::kCreated && !told.bundles.empty() &&
                        !told.bundles.front().empty();
  if (is_there && found->host.empty()) {
    found->node_id = told.bundles.front();
    found->host = NameFor(found->node_id);
    found->came = now;
    orders.placed.push_back({found->host, {.group = found->name, .bundles = {0}}});
    orders.has_news = true;
  } else if (!is_there && (!found->host.empty() || told.state != BrokerGroupState::kPending)) {
    // A group that Ray moves counts as lost; a refused one is retried after the pause.
    paused_[found->node_id] = now + policy_.pause;
    Drop(index, &orders);
    Grow(now, &orders);
  }
  return orders;
}

/// A created demand group shows that there is new room. It is released: the next table of nodes
/// shows the room, and a pinned group takes it.
RayHostPlan::Orders RayHostPlan::OnDemand(const BrokerGroup& told, TimePoint now) {
  Orders orders;
  if (told.state == BrokerGroupState::kPending || told.state == BrokerGroupState::kRescheduling) {
    return orders;
  }
  const bool is_there = told.state == BrokerGroupState::kCreated;
  orders.release.push_back(std::exchange(demand_, {}));
  demand_slots_ = 0;
  demand_after_ = now + (is_there ? policy_.settle : policy_.pause);
  return orders;
}

RayHostPlan::Orders RayHostPlan::OnEndpoint(const std::string& host, bool is_live, TimePoint now) {
  Orders orders;
  const auto found = std::find_if(groups_.begin(), groups_.end(), [&host](const Group& group) {
    return group.host == host && !host.empty();
  });
  if (found == groups_.end()) return orders;
  found->has_agent = is_live;
  found->is_idle = !is_live;
  if (is_live) return orders;
  if (found->is_leaving) {
    Drop(static_cast<size_t>(found - groups_.begin()), &orders);
  } else if (!policy_.has_cooldown) {
    banned_.insert(found->node_id);
    Drop(static_cast<size_t>(found - groups_.begin()), &orders);
  }
  Grow(now, &orders);
  return orders;
}

RayHostPlan::Orders RayHostPlan::Tick(TimePoint now) {
  Orders orders;
  for (size_t i = groups_.size(); i-- > 0;) {
    Group& group = groups_[i];
    group.is_settled = !group.host.empty() && now - group.came >= policy_.settle;
    if (!group.host.empty() || now - group.asked < policy_.patience) continue;
    paused_[groups_[i].node_id] = now + policy_.pause;
    Drop(i, &orders);
  }
  std::erase_if(paused_, [now](const auto& entry) { return entry.second <= now; });
  if (demand_after_ && *demand_after_ <= now) demand_after_.reset();
  Grow(now, &orders);
  return orders;
}

std::optional<TimePoint> RayHostPlan::NextDeadline() const {
  std::optional<TimePoint> next;
  const auto consider = [&next](TimePoint time) { next = next ? std::min(*next, time) : time; };
  for (const Group& group : groups_) {
    if (group.host.empty()) {
      consider(group.asked + policy_.patience);
    } else if (!group.is_settled) {
      consider(group.came + policy_.settle);
    }
  }
  for (const auto& [node, until] : paused_) consider(until);
  if (demand_after_) consider(*demand_after_);
  return next;
}

std::vector<HostSlots> RayHostPlan::hosts() const {
  std::vector<HostSlots> hosts;
  for (const Group& group : groups_) {
    if (!group.host.empty() && !group.is_leaving) hosts.push_back({group.host, group.slots});
  }
  return hosts;
}

int RayHostPlan::held_slots() const {
  int slots = 0;
  for (const Group& group : groups_) {
    if (!group.host.empty() && !group.is_idle && !group.is_leaving) slots += group.slots;
  }
  return slots;
}

std::vector<std::string> RayHostPlan::HostsOn(const std::string& node_id) const {
  std::vector<std::string> hosts;
  for (const Group& group : groups_) {
    if (!group.host.empty() && group.node_id == node_id) hosts.push_back(group.host);
  }
  return hosts;
}

std::string RayHostPlan::IpOf(const std::string& host) const {
  const auto found = std::find_if(groups_.begin(), groups_.end(),
                                  [&host](const Group& group) { return group.host == host; });
  const RayNode* node = found == groups_.end() ? nullptr : Find(found->node_id);
  return node == nullptr ? "" : node->ip;
}

void RayHostPlan::Grow(TimePoint now, Orders* orders) {
  const std::vector<int> slots = SlotsOfNodes(policy_.max_slots - TakenSlots(), now);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (slots[i] == 0) continue;
    BrokerReserve reserve = ReserveOn(nodes_[i], slots[i]);
    groups_.push_back({.name = reserve.name,
                       .node_id = nodes_[i].id,
                       .host = {},
                       .slots = slots[i],
                       .asked = now});
    orders->reserve.push_back(std::move(reserve));
  }
  AskForNodes(now, orders);
}

void RayHostPlan::AskForNodes(TimePoint now, Orders* orders) {
  if (nodes_.empty() || limits_ || !policy_.only_ips.empty()) return;
  const int missing = std::max(0, std::min(policy_.wanted_slots, policy_.max_slots) - TakenSlots());
  if (missing == demand_slots_) return;
  if (!demand_.empty()) orders->release.push_back(std::exchange(demand_, {}));
  demand_slots_ = 0;
  if (missing == 0 || (demand_after_ && *demand_after_ > now)) return;
  BrokerReserve reserve;
  reserve.name = fmt::format("{}-{}", policy_.group_prefix, next_group_++);
  reserve.strategy = policy_.is_spread ? "SPREAD" : "PACK";
  reserve.bundles.assign(static_cast<size_t>(missing), SlotBundle(policy_.ask));
  RayLabels labels = policy_.ask.labels;
  if (!banned_.empty()) labels["ray.io/node-id"] = fmt::format("!in({})", fmt::join(banned_, ","));
  if (!labels.empty()) reserve.selectors.assign(reserve.bundles.size(), labels);
  demand_ = reserve.name;
  demand_slots_ = missing;
  orders->reserve.push_back(std::move(reserve));
}

/// Slots in use or requested.
int RayHostPlan::TakenSlots() const {
  int slots = 0;
  for (const Group& group : groups_) slots += group.is_idle || group.is_leaving ? 0 : group.slots;
  return slots;
}

/// How many slots to request on each node.
std::vector<int> RayHostPlan::SlotsOfNodes(int room, TimePoint now) const {
  std::vector<int> slots(nodes_.size());
  std::vector<int> free(nodes_.size());
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (!IsUsable(nodes_[i], now)) continue;
    free[i] = std::max(0, std::min(FreeSlotsOn(nodes_[i], policy_.ask), RoomOn(nodes_[i])));
  }
  for (bool has_given = true; has_given && room > 0;) {
    has_given = false;
    for (size_t i = 0; i < nodes_.size() && room > 0; ++i) {
      const int given = std::min({policy_.is_spread ? 1 : room, free[i] - slots[i], room});
      slots[i] += given;
      room -= given;
      has_given |= given > 0;
    }
  }
  return slots;
}

int RayHostPlan::RoomOn(const RayNode& node) const {
  if (!limits_) return policy_.max_slots;
  const auto limit = limits_->find(node.ip);
  int room = limit == limits_->end() ? 0 : limit->second;
  for (const Group& group : groups_) {
    if (group.node_id == node.id && !group.is_leaving) room -= group.slots;
  }
  return room;
}

bool RayHostPlan::IsUsable(const RayNode& node, TimePoint now) const {
  const auto paused = paused_.find(node.id);
  return node.is_alive && !node.leaves_at && !banned_.contains(node.id) &&
         (paused == paused_.end() || paused->second <= now) &&
         (policy_.only_ips.empty() || policy_.only_ips.contains(node.ip)) &&
         std::none_of(groups_.begin(), groups_.end(), [&node](const Group& group) {
           return group.node_id == node.id && (!group.is_settled || group.is_idle);
         });
}

bool RayHostPlan::IsInUse(const std::string& host) const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [&host](const Group& group) { return group.host == host; });
}

BrokerReserve RayHostPlan::ReserveOn(const RayNode& node, int slots) {
  BrokerReserve reserve;
  reserve.name = fmt::format("{}-{}", policy_.group_prefix, next_group_++);
  reserve.strategy = "STRICT_PACK";
  RayAmounts bundle;
  for (const auto& [name, amount] : SlotBundle(policy_.ask)) bundle[name] = amount * slots;
  const auto at_ip = std::count_if(nodes_.begin(), nodes_.end(), [&node](const RayNode& other) {
    return other.is_alive && other.ip == node.ip;
  });
  if (at_ip == 1) {
    bundle["node:" + node.ip] = kPin;  // unlike selectors, every version of Ray supports this
  } else {
    reserve.selectors = {{{"ray.io/node-id", node.id}}};
  }
  reserve.bundles = {std::move(bundle)};
  return reserve;
}

void RayHostPlan::Drop(size_t index, Orders* orders) {
  const Group group = std::move(groups_[index]);
  groups_.erase(groups_.begin() + static_cast<std::ptrdiff_t>(index));
  orders->release.push_back(group.name);
  if (group.host.empty()) return;
  orders->removed.push_back(group.host);
  orders->has_news = true;
}

// A new node at the address of a lost one gets another name, since the job may have blacklisted the
// old host. A second group on one node is also a separate host.
std::string RayHostPlan::NameFor(const std::string& node_id) {
  std::string name = RayHostNames(std::vector{node_id}, nodes_).front();
  auto known = names_.try_emplace(name, node_id).first;
  if (known->second != node_id) {
    name = fmt::format("{}-{}", name, node_id.substr(0, kShortId));
    known = names_.try_emplace(name, node_id).first;
  }
  const std::string first = name;
  for (int i = 2; IsInUse(name); ++i) name = fmt::format("{}-{}", first, i);
  return name;
}

const RayNode* RayHostPlan::Find(const std::string& node_id) const {
  const auto found = std::find_if(nodes_.begin(), nodes_.end(),
                                  [&node_id](const RayNode& node) { return node.id == node_id; });
  return found == nodes_.end() ? nullptr : &*found;
}

}  // namespace hvdray
