// SPDX-License-Identifier: Apache-2.0
#include "cluster/ray/group_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace hvdray {
namespace {

constexpr Duration kFirstLine = std::chrono::seconds(1);
constexpr Duration kLinePeriod = std::chrono::seconds(10);
// A node that is just joining may change Ray's mind.
constexpr Duration kInfeasibleFor = std::chrono::seconds(2);

double SecondsOf(Duration duration) {
  return std::chrono::duration_cast<Seconds>(duration).count();
}

}  // namespace

std::vector<RayNode> RayNodesOf(const BrokerNodes& nodes) {
  std::vector<RayNode> result;
  for (const BrokerNode& node : nodes.nodes) {
    result.push_back({.id = node.id,
                      .ip = node.ip,
                      .is_alive = node.is_alive,
                      .total = node.total,
                      .free = node.free,
                      .labels = node.labels,
                      .is_leaving = node.leaves_at.has_value()});
  }
  return result;
}

GroupWait::GroupWait(RayRequest request, GroupWaitOptions options, TimePoint began)
    : request_(std::move(request)),
      options_(options),
      began_(began),
      bundles_(request_.bundles.size()),
      next_line_(began + kFirstLine) {}

void GroupWait::Expect(size_t bundles) {
  bundles_ = bundles;
  group_ = {};
  infeasible_since_.reset();
}

void GroupWait::OnNodes(const BrokerNodes& nodes) { nodes_ = RayNodesOf(nodes); }

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
  return !options_.can_grow && infeasible_since_ && now - *infeasible_since_ >= kInfeasibleFor;
}

GroupWait::State GroupWait::Look(TimePoint now) const {
  if (IsPlaced()) return State::kCreated;
  const bool is_refused =
      group_.state == BrokerGroupState::kFailed || group_.state == BrokerGroupState::kRemoved;
  const bool is_late = now - began_ >= options_.limit;
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
  return {
      ErrorCode::kNoCapacity,
      fmt::format("no placement group within {:g} s: {}", SecondsOf(options_.limit), MissingText()),
      "wait for other jobs, request less, or raise --placement-group-timeout"};
}

std::optional<std::string> GroupWait::TakeLine(TimePoint now) {
  if (now < next_line_) return std::nullopt;
  next_line_ = now + kLinePeriod;
  return fmt::format("waiting for a placement group for {:.0f} s: {}", SecondsOf(now - began_),
                     MissingText());
}

TimePoint GroupWait::NextDeadline() const {
  TimePoint next = std::min(next_line_, began_ + options_.limit);
  if (infeasible_since_ && !options_.can_grow) {
    next = std::min(next, *infeasible_since_ + kInfeasibleFor);
  }
  return next;
}

}  // namespace hvdray
