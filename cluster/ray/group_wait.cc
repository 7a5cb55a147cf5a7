// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/group_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "launcher/job/ray_request.h"

namespace hvdray {
namespace {

constexpr Duration kFirstLine = std::chrono::seconds(1);
constexpr Duration kLinePeriod = std::chrono::seconds(10);
// A node that is just joining may change Ray's mind.
constexpr Duration kInfeasibleFor = std::chrono::seconds(2);

double ToSeconds(Duration duration) {
  return std::chrono::duration_cast<Seconds>(duration).count();
}

}  // namespace

GroupWait::GroupWait(RayRequest request, Duration limit, bool can_grow, TimePoint began)
    : request_(std::move(request)),
      limit_(limit),
      can_grow_(can_grow),
      began_(began),
      bundles_(request_.bundles.size()),
      next_line_(began + kFirstLine) {}

void GroupWait::Expect(size_t bundles) {
  bundles_ = bundles;
  group_ = {};
  infeasible_since_.reset();
}

void GroupWait::OnGroup(const BrokerGroup& group, TimePoint now) {
  group_ = group;
  const bool is_infeasible =
      group.state == BrokerGroupState::kPending && group.reason == "INFEASIBLE";
  if (!is_infeasible) {
    infeasible_since_.reset();
  } else if (!infeasible_since_) {
    infeasible_since_ = now;
  }
}

bool GroupWait::IsPlaced() const {
  return group_.state == BrokerGroupState::kCreated && group_.bundles.size() == bundles_ &&
         std::all_of(group_.bundles.begin(), group_.bundles.end(), [this](const std::string& id) {
           return std::any_of(nodes_.begin(), nodes_.end(), [&id](const RayNode& node) {
             return node.id == id && node.is_alive;
           });
         });
}

bool GroupWait::IsHopeless(TimePoint now) const {
  return !can_grow_ && infeasible_since_ && now - *infeasible_since_ >= kInfeasibleFor;
}

GroupWait::State GroupWait::Look(TimePoint now) const {
  if (IsPlaced()) return State::kCreated;
  const bool is_refused =
      group_.state == BrokerGroupState::kFailed || group_.state == BrokerGroupState::kRemoved;
  const bool is_late = now - began_ >= limit_;
  return is_refused || is_late || IsHopeless(now) ? State::kFailed : State::kWaiting;
}

std::string GroupWait::MissingText() const {
  const std::string why = group_.reason.empty() ? "" : fmt::format(" ({})", group_.reason);
  const RayFit fit = FitRequest(request_, nodes_);
  if (!fit.missing.empty() && !nodes_.empty()) return fit.missing + why;
  const size_t count = request_.bundles.size();
  return fmt::format("{} bundle{} of {} {} requested{}", count, count == 1 ? "" : "s",
                     AmountsText(request_.bundles.front()), count == 1 ? "is" : "are", why);
}

Status GroupWait::failure(TimePoint now) const {
  if (group_.state == BrokerGroupState::kFailed && group_.reason == "INFEASIBLE") {
    return {ErrorCode::kInfeasible, group_.text};
  }
  if (group_.state == BrokerGroupState::kFailed) {
    return {ErrorCode::kRayFailed, "reserve a placement group: " + group_.text};
  }
  if (group_.state == BrokerGroupState::kRemoved) {
    return {ErrorCode::kRayFailed, "reserve a placement group: it was removed"};
  }
  if (IsHopeless(now)) {
    return {ErrorCode::kInfeasible, MissingText(),
            "request less, or add nodes; `hvdray slots --ray` shows the free slots"};
  }
  return {ErrorCode::kNoCapacity,
          fmt::format("no placement group within {:g} s: {}", ToSeconds(limit_), MissingText()),
          "wait for other jobs, request less, or raise --placement-group-timeout"};
}

std::optional<std::string> GroupWait::TakeLine(TimePoint now) {
  if (now < next_line_) return std::nullopt;
  next_line_ = now + kLinePeriod;
  return fmt::format("waiting for a placement group for {:.0f} s: {}", ToSeconds(now - began_),
                     MissingText());
}

TimePoint GroupWait::NextDeadline() const {
  TimePoint next = std::min(next_line_, began_ + limit_);
  if (infeasible_since_ && !can_grow_) {
    next = std::min(next, *infeasible_since_ + kInfeasibleFor);
  }
  return next;
}

RayPlacement PlaceGroup(const RayRequest& request, const BrokerGroup& group,
                        std::span<const RayNode> nodes) {
  RayPlacement placement;
  for (size_t bundle = 0; bundle < group.bundles.size(); ++bundle) {
    const std::string& id = group.bundles[bundle];
    const auto found = std::find(placement.node_ids.begin(), placement.node_ids.end(), id);
    const auto host = static_cast<size_t>(found - placement.node_ids.begin());
    if (found == placement.node_ids.end()) {
      placement.node_ids.push_back(id);
      placement.ips.push_back(RayIp(id, nodes));
      placement.hosts.emplace_back();
      placement.places.push_back({.group = group.name, .bundles = {}, .node_id = id});
    }
    placement.hosts[host].slots += bundle < request.slots.size() ? request.slots[bundle] : 0;
    placement.places[host].bundles.push_back(static_cast<int>(bundle));
  }
  const std::vector<std::string> names = RayHostNames(placement.node_ids, nodes);
  for (size_t i = 0; i < names.size(); ++i) placement.hosts[i].host = names[i];
  return placement;
}

}  // namespace hvdray
