// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/up/lease.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

bool IsAnyAt(UpState state, const std::vector<UpNodeDriver>& nodes) {
  return std::ranges::any_of(nodes,
                             [state](const UpNodeDriver& node) { return node.state() == state; });
}

}  // namespace

UpDriver::UpDriver(UpPolicy policy, std::vector<UpNode> nodes, std::string token)
    : context_{.policy = std::move(policy)}, token_(std::move(token)) {
  nodes_.reserve(nodes.size());
  for (UpNode& plan : nodes) {
    nodes_.emplace_back(context_, static_cast<int>(nodes_.size()), std::move(plan));
  }
}

ClusterEffects UpDriver::Begin(TimePoint now) {
  context_.now = context_.began = now;
  for (UpNodeDriver& node : nodes_) node.LogIn();
  return std::exchange(context_.effects, {});
}

ClusterEffects UpDriver::Handle(const ClusterEvent& event, TimePoint now) {
  context_.now = now;
  if (!is_over_) {
    std::visit([this](const auto& fact) { On(fact); }, event);
    Advance();
  }
  return std::exchange(context_.effects, {});
}

std::optional<TimePoint> UpDriver::NextDeadline() const {
  if (is_over_) return std::nullopt;
  std::optional<TimePoint> next = CanAsk() ? ask_at_ : std::nullopt;
  for (const UpNodeDriver& node : nodes_) {
    const std::optional<TimePoint> at = node.NextDeadline();
    if (at && (!next || *at < *next)) next = at;
  }
  return next;
}

std::vector<NodeRow> UpDriver::Rows() const {
  std::vector<NodeRow> rows;
  rows.reserve(nodes_.size());
  for (const UpNodeDriver& node : nodes_) rows.push_back(node.Row());
  return rows;
}

// ---- facts

void UpDriver::On(const cluster_event::LoggedIn& fact) { NodeAt(fact.node).OnLoggedIn(); }

void UpDriver::On(const cluster_event::Lost& fact) {
  UpNodeDriver& node = NodeAt(fact.node);
  if (&node == &head()) {
    is_asking_ = is_noting_ = false;
    is_head_lost_ = node.state() != UpState::kLoggingIn;
    // Its part is done, but only the head's agent can say who has joined.
    for (UpNodeDriver& other : nodes_) {
      if (head().state() != UpState::kUp || IsEnd(other.state())) continue;
      other.Fail(Status(fact.why).WithContext("the link to the head is lost"));
    }
  }
  node.OnLost(fact.why);
}

void UpDriver::On(const cluster_event::Done& fact) {
  UpNodeDriver& node = NodeAt(fact.node);
  const bool is_head = &node == &head();
  if (is_head && std::exchange(is_asking_, false)) return OnNodes(fact.result);
  if (is_head && std::exchange(is_noting_, false)) return OnMembersNoted(fact.result);
  const UpState before = node.state();
  node.OnDone(fact.result);
  if (node.state() == UpState::kLooking) AskForNodes();  // A head that has a Ray.
  const bool is_joining = node.state() == UpState::kJoining && before != UpState::kJoining;
  if (is_joining) ask_at_ = context_.now;
}

void UpDriver::On(const cluster_event::Listening& fact) {
  if (fact.node == 0 && head().state() == UpState::kStarting) is_head_listening_ = true;
}

void UpDriver::On(const cluster_event::Answer& fact) {
  if (!is_planned_ || is_working_) return;
  if (fact.is_yes) return Work();
  is_over_ = true;
  context_.effects.emplace_back(cluster_effect::Say{"nothing was changed"});
  context_.effects.emplace_back(cluster_effect::Finish{kNothingDone});
}

void UpDriver::On(const event::Tick& /*fact*/) {
  for (UpNodeDriver& node : nodes_) node.OnTick();
}

void UpDriver::Advance() {
  if (!is_planned_) MakePlan();
  if (is_working_) LetNodesGoOn();
  if (CanAsk() && ask_at_ && *ask_at_ <= context_.now) AskForNodes();
  FinishIfOver();
}

// ---- the plan

void UpDriver::MakePlan() {
  if (IsAnyAt(UpState::kLoggingIn, nodes_) || IsAnyAt(UpState::kLooking, nodes_)) return;
  is_planned_ = true;
  members_ = head().survey().members;
  cluster_note::Planned planned;
  for (UpNodeDriver& node : nodes_) {
    if (node.state() == UpState::kWaiting) planned.nodes.push_back(node.Decide(ray_nodes_, head()));
  }
  const bool is_any_change = std::ranges::any_of(
      planned.nodes, [](const NodePlan& plan) { return plan.need != Name(UpNeed::kKeep); });
  context_.effects.emplace_back(cluster_effect::Note{std::move(planned)});
  std::vector<std::string> foreign_addresses;
  for (const auto& [id, address] : ray_nodes_.alive) {
    const bool is_ours = std::ranges::any_of(
        nodes_, [&id = id](const UpNodeDriver& node) { return node.survey().ray_node == id; });
    if (!is_ours) foreign_addresses.push_back(address);
  }
  if (!foreign_addresses.empty() && !head().is_restarting()) {
    context_.effects.emplace_back(cluster_effect::Say{fmt::format(
        "{}: its Ray also lists {}, of which this run knows nothing: ended a moment ago, or left "
        "out of the file or by --max-workers; it is left alone",
        head().address(), fmt::join(foreign_addresses, ", "))});
  }
  if (const std::string text = DecideLease(); !text.empty()) {
    context_.effects.emplace_back(
        cluster_effect::Say{fmt::format("cluster {}: {}", context_.policy.cluster, text)});
  }
  if (head().state() == UpState::kFailed) {
    // Without it no worker could join.
    for (UpNodeDriver& node : nodes_) {
      if (!IsEnd(node.state())) node.Fail({ErrorCode::kCancelled, "the head failed"});
    }
  } else if (context_.policy.is_dry_run) {
    is_over_ = true;
    context_.effects.emplace_back(
        cluster_effect::Finish{IsAnyAt(UpState::kFailed, nodes_) ? kHvdrayFailed : 0});
  } else if (!is_any_change || context_.policy.is_confirmed) {
    Work();
  } else {
    context_.effects.emplace_back(
        cluster_effect::Ask{fmt::format("Do this to cluster {}? [y/N] ", context_.policy.cluster)});
  }
}

/// What is told of it; empty: there was none and there is none.
std::string UpDriver::DecideLease() {
  int64_t ended = 0;  // The latest end found that is over.
  for (const UpNodeDriver& node : nodes_) {
    const int64_t end = node.survey().lease;
    int64_t& latest = end > context_.policy.wall_time ? lease_ : ended;
    latest = std::max(latest, end);
  }
  if (context_.policy.lease) {
    lease_ = *context_.policy.lease;
    return lease_ == 0 ? "no lease" : fmt::format("lease until {}", LeaseText(lease_));
  }
  if (lease_ != 0) {
    return fmt::format("lease until {}, as before; --lease renews it", LeaseText(lease_));
  }
  if (ended == 0) return {};
  return fmt::format("its lease ended at {}; now it has none", LeaseText(ended));
}

void UpDriver::Work() {
  is_working_ = true;
  const bool is_any_starting = std::any_of(
      nodes_.begin() + 1, nodes_.end(),
      [](const UpNodeDriver& node) { return !IsEnd(node.state()) && node.is_restarting(); });
  for (UpNodeDriver& node : nodes_) {
    if (node.state() == UpState::kWaiting) node.Work(lease_, is_any_starting);
  }
}

// ---- what a node waits for of others

void UpDriver::LetNodesGoOn() {
  const bool is_open = head().state() == UpState::kUp || is_head_listening_;
  const bool is_held = head().state() == UpState::kForHead && head().is_restarting();
  for (auto node = nodes_.begin() + 1; node != nodes_.end(); ++node) {
    if (head().state() == UpState::kFailed) node->LoseHead();
    if (node->state() != UpState::kForHead) continue;
    if (is_held && node->survey().processes > 0) {
      node->ClearForHead();
    } else if (is_open) {
      node->StartWorker(head());
    }
  }
  if (head().state() == UpState::kForHead && IsHeadFree()) head().StartHead(token_);
}

/// No Ray of a worker belongs to the one that a head that restarts is about to end.
bool UpDriver::IsHeadFree() const {
  return !head().is_restarting() ||
         std::none_of(nodes_.begin() + 1, nodes_.end(), [](const UpNodeDriver& node) {
           return node.is_restarting() && node.survey().processes > 0 && !IsEnd(node.state());
         });
}

/// Until the head's own start is over, it does nothing else.
bool UpDriver::CanAsk() const {
  return !is_asking_ && !is_noting_ && head().state() != UpState::kStarting &&
         IsAnyAt(UpState::kJoining, nodes_);
}

void UpDriver::AskForNodes() {
  ask_at_.reset();
  is_asking_ = true;
  NodeEffects(context_.effects, 0, head().address()).Call("nodes");
}

void UpDriver::OnNodes(const TaskResult& result) {
  JoinedNodes nodes;
  if (result.is_success()) {
    nodes = ParseJoinedNodes(result.output);
  } else {
    nodes.problem = FailureOf("ask the head", result).message();
  }
  if (head().state() == UpState::kLooking) {
    ray_nodes_ = std::move(nodes);
    return head().AwaitPlan();
  }
  for (UpNodeDriver& node : nodes_) {
    if (head().state() == UpState::kFailed) node.LoseHead();
    node.OnListed(nodes, head());
  }
  if (IsAnyAt(UpState::kJoining, nodes_)) ask_at_ = context_.now + context_.policy.join_pause;
  NoteMembers();
}

// ---- which node runs on which machine

std::vector<std::string> UpDriver::MembersNow() const {
  std::vector<std::string> members = members_;
  for (const UpNodeDriver& node : nodes_) {
    const NodeSurvey& survey = node.survey();
    if (node.state() != UpState::kUp || survey.ray_node.empty()) continue;
    const std::string name = node.address() + " ";
    const std::string ip = survey.address.empty() ? "-" : survey.address;
    std::string line = fmt::format("{}{} {}", name, survey.ray_node, ip);
    const auto known = std::ranges::find_if(
        members, [&name](const std::string& member) { return member.starts_with(name); });
    if (known == members.end()) {
      members.push_back(std::move(line));
    } else {
      *known = std::move(line);
    }
  }
  return members;
}

/// Whether the head is told something new. It keeps that for those who have only Ray's addresses
/// and the file's, which may differ.
bool UpDriver::NoteMembers() {
  if (head().state() != UpState::kUp || is_head_lost_ || is_asking_ || is_noting_) return false;
  std::vector<std::string> members = MembersNow();
  if (members == members_) return false;
  members_ = std::move(members);
  is_noting_ = true;
  NodeEffects(context_.effects, 0, head().address()).Call("members", members_);
  return true;
}

void UpDriver::OnMembersNoted(const TaskResult& result) {
  // The cluster is up all the same, and where addresses are equal nobody needs it.
  if (!result.is_success()) {
    NodeEffects(context_.effects, 0, head().address())
        .Say(FailureOf("note which nodes are Ray's", result).message());
  }
  ask_at_ = context_.now;
}

void UpDriver::FinishIfOver() {
  if (is_over_ || !is_planned_) return;
  const bool is_all_ended =
      std::ranges::all_of(nodes_, [](const UpNodeDriver& node) { return IsEnd(node.state()); });
  if (!is_all_ended || is_noting_ || NoteMembers()) return;
  is_over_ = true;
  context_.effects.emplace_back(
      cluster_effect::Finish{IsAnyAt(UpState::kFailed, nodes_) ? kHvdrayFailed : 0});
}

}  // namespace hvdray
