// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/down_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "cluster/up/lease.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

constexpr std::string_view kDrainSeconds = "10";

// Many times what a call takes on a busy host. One that hangs, because a container engine or a file
// system does, must not keep `down` from the rest.
constexpr Duration kLookLimit = std::chrono::minutes(1);
constexpr Duration kWorkLimit = std::chrono::minutes(5);

}  // namespace

DownDriver::DownDriver(DownPolicy policy, std::vector<DownNode> nodes)
    : policy_(std::move(policy)) {
  for (DownNode& plan : nodes) {
    NodeEffects effects(effects_, static_cast<int>(nodes_.size()), plan.address);
    nodes_.push_back({.plan = std::move(plan), .effects = std::move(effects)});
  }
}

std::string_view DownDriver::Name(State state) {
  switch (state) {
    case State::kLoggingIn:
      return "logging in";
    case State::kLooking:
      return "looking";
    case State::kDraining:
      return "draining";
    case State::kRunning:
      return "running";
    case State::kStopping:
      return "stopping";
    case State::kChecking:
      return "checking";
    case State::kEnded:
      return "ended";
    case State::kFailed:
      return "failed";
  }
  return "?";
}

NodePhase DownDriver::PhaseOf(State state) {
  switch (state) {
    case State::kLoggingIn:
    case State::kLooking:
    case State::kDraining:
    case State::kStopping:
    case State::kChecking:
      return NodePhase::kAtWork;
    case State::kRunning:
      return NodePhase::kWaiting;
    case State::kEnded:
      return NodePhase::kDone;
    case State::kFailed:
      return NodePhase::kFailed;
  }
  return NodePhase::kAtWork;
}

std::string_view DownDriver::NeedOf(const Node& node) const {
  return node.has_any() && !is_kept_ ? "end" : "keep";
}

std::vector<NodeRow> DownDriver::Rows() const {
  std::vector<NodeRow> rows;
  rows.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    NodeRow& row = rows.emplace_back();
    row.address = node.plan.address;
    row.is_head = node.plan.is_head;
    if (node.is_looked_at) row.need = NeedOf(node);
    row.state = Name(node.state);
    row.phase = PhaseOf(node.state);
    row.processes = node.processes;
    row.why = node.why;
    if (node.logged_in) row.log_in = *node.logged_in - began_;
    if (node.ended) row.end = *node.ended - node.ordered;
  }
  return rows;
}

ClusterEffects DownDriver::Begin(TimePoint now) {
  now_ = began_ = now;
  for (Node& node : nodes_) node.log_in.Begin(node.effects, now, policy_.log_in_limit);
  if (nodes_.empty()) MakePlan();
  return std::exchange(effects_, {});
}

ClusterEffects DownDriver::Handle(const ClusterEvent& event, TimePoint now) {
  now_ = now;
  if (!is_over_) std::visit([this](const auto& fact) { On(fact); }, event);
  return std::exchange(effects_, {});
}

std::optional<TimePoint> DownDriver::NextDeadline() const {
  std::optional<TimePoint> next;
  if (is_over_) return next;
  for (const Node& node : nodes_) {
    for (const std::optional<TimePoint>& at : {node.log_in.next(), node.due}) {
      if (at && (!next || *at < *next)) next = at;
    }
  }
  return next;
}

size_t DownDriver::CountAt(State state) const {
  return static_cast<size_t>(std::count_if(
      nodes_.begin(), nodes_.end(), [state](const Node& node) { return node.state == state; }));
}

void DownDriver::Call(size_t index, State next, std::string verb,
                      std::vector<std::string> arguments) {
  const bool is_look = next == State::kLooking || next == State::kChecking;
  nodes_[index].state = next;
  nodes_[index].due = now_ + (is_look ? kLookLimit : kWorkLimit);
  nodes_[index].effects.Call(std::move(verb), std::move(arguments));
}

void DownDriver::On(const cluster_event::LoggedIn& fact) {
  const auto index = static_cast<size_t>(fact.node);
  if (nodes_[index].state != State::kLoggingIn) return;
  nodes_[index].logged_in = now_;
  Call(index, State::kLooking, "survey", {"await"});
}

void DownDriver::On(const cluster_event::Lost& fact) {
  const auto index = static_cast<size_t>(fact.node);
  Node& node = nodes_[index];
  if (node.state == State::kEnded || node.state == State::kFailed) return;
  const bool is_tried_again =
      node.state == State::kLoggingIn && node.log_in.OnFailed(node.effects, fact.why, now_);
  if (!is_tried_again) Fail(index, fact.why);
}

void DownDriver::On(const event::Tick& /*fact*/) {
  for (size_t index = 0; index < nodes_.size(); ++index) {
    Node& node = nodes_[index];
    if (node.due && *node.due <= now_) {
      Fail(index,
           {ErrorCode::kDeadlineExceeded, fmt::format("no answer while {}", Name(node.state)),
            "a container engine or a file system may hang there: look with ps"});
    }
    node.log_in.OnTick(node.effects, now_);
  }
}

void DownDriver::On(const cluster_event::Done& fact) {
  const auto index = static_cast<size_t>(fact.node);
  nodes_[index].due.reset();
  switch (nodes_[index].state) {
    case State::kLooking:
      return OnLooked(index, fact.result);
    case State::kDraining:
      return OnDrained(index, fact.result);
    case State::kStopping:
      return OnStopped(index, fact.result);
    case State::kChecking:
      return OnChecked(index, fact.result);
    case State::kLoggingIn:
    case State::kRunning:
    case State::kEnded:
    case State::kFailed:
      return;
  }
}

void DownDriver::OnLooked(size_t index, const TaskResult& result) {
  if (!result.is_success()) return Fail(index, FailureOf("look at the node", result));
  const NodeSurvey survey = ParseSurvey(result.output);
  if (!survey.at_work.empty()) {
    // It would start Ray after we have found nothing to end.
    return Fail(index, {ErrorCode::kNodeSetupFailed,
                        "an hvdray up is still running on this node: " + survey.at_work,
                        "wait for its end, or end it; then call down again"});
  }
  const std::string expected = nodes_[index].plan.is_head ? "" : policy_.head;
  if (survey.processes > 0 && survey.joined_head != expected) {
    const std::string heads =
        survey.joined_head.empty() ? "it is a head itself" : "its head is " + survey.joined_head;
    return Fail(index,
                {ErrorCode::kUsage,
                 fmt::format("its Ray belongs to another cluster '{}': {}", policy_.cluster, heads),
                 "end that cluster with its own file"});
  }
  nodes_[index].processes = survey.processes;
  nodes_[index].has_container = survey.containers > 0;
  nodes_[index].lease = survey.lease;
  nodes_[index].is_looked_at = true;
  nodes_[index].state = nodes_[index].has_any() ? State::kRunning : State::kEnded;
  MakePlan();
}

void DownDriver::MakePlan() {
  if (is_planned_ || CountAt(State::kLoggingIn) > 0 || CountAt(State::kLooking) > 0) return;
  is_planned_ = true;
  is_kept_ = policy_.expired_by && IsKeptByLease();
  cluster_note::Planned planned;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (!node.is_looked_at || node.state == State::kFailed) continue;
    planned.nodes.push_back(
        {.node = static_cast<int>(index), .need = NeedOf(node), .processes = node.processes});
  }
  effects_.emplace_back(cluster_effect::Note{std::move(planned)});
  if (is_kept_) {
    is_over_ = true;
    effects_.emplace_back(cluster_effect::Finish{CountAt(State::kFailed) == 0 ? 0 : kHvdrayFailed});
    return;
  }
  for (size_t index = 0; index < nodes_.size(); ++index) {
    if (nodes_[index].state != State::kRunning) continue;
    nodes_[index].effects.Say(fmt::format("end Ray ({}){}{}{}",
                                          ProcessesText(nodes_[index].processes),
                                          nodes_[index].has_container ? " and its container" : "",
                                          nodes_[index].lease != 0 ? " and its lease" : "",
                                          nodes_[index].plan.is_head ? " (head)" : ""));
  }
  if (CountAt(State::kRunning) == 0) return FinishIfOver();
  if (policy_.is_confirmed) return Work();
  effects_.emplace_back(
      cluster_effect::Ask{fmt::format("End cluster {}? [y/N] ", policy_.cluster)});
}

/// The latest lease counts: a node that missed a renewal does not end the others.
bool DownDriver::IsKeptByLease() {
  int64_t end = 0;
  for (const Node& node : nodes_) end = std::max(end, node.lease);
  if (end != 0 && end <= *policy_.expired_by) return false;
  effects_.emplace_back(cluster_effect::Say{LeaseKeptText(policy_.cluster, end)});
  return true;
}

void DownDriver::On(const cluster_event::Answer& fact) {
  if (!is_planned_ || is_working_) return;
  if (fact.is_yes) return Work();
  is_over_ = true;
  effects_.emplace_back(cluster_effect::Say{"nothing was changed"});
  effects_.emplace_back(cluster_effect::Finish{kNothingDone});
}

void DownDriver::Work() {
  is_working_ = true;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (!node.plan.is_head || node.state != State::kRunning) continue;
    // Before any node ends: jobs end in order, and none sees a node fail.
    Call(index, State::kDraining, "drain", {std::string(kDrainSeconds)});
  }
  StopNext();
}

void DownDriver::OnDrained(size_t index, const TaskResult& result) {
  const DrainCount count = ParseDrained(result.output);
  if (!count.problem.empty()) {
    nodes_[index].effects.Say(fmt::format("its jobs cannot be asked to stop: {}", count.problem));
  } else if (count.jobs > 0) {
    nodes_[index].effects.Say(fmt::format(
        "stopped {}{}", Count(static_cast<size_t>(count.jobs), "job"),
        count.left > 0 ? fmt::format(", of which {} still run", count.left) : std::string()));
  }
  nodes_[index].state = State::kRunning;
  StopNext();
}

void DownDriver::StopNext() {
  if (CountAt(State::kDraining) > 0) return;
  bool is_any_worker_left = false;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (node.plan.is_head) continue;
    if (node.state == State::kRunning) Stop(index);
    is_any_worker_left =
        is_any_worker_left || node.state == State::kStopping || node.state == State::kChecking;
  }
  // The head last: workers that lose it first would wait for it for a minute.
  for (size_t index = 0; index < nodes_.size() && !is_any_worker_left; ++index) {
    if (nodes_[index].state == State::kRunning) Stop(index);
  }
  FinishIfOver();
}

void DownDriver::Stop(size_t index) {
  nodes_[index].ordered = now_;
  Call(index, State::kStopping, "end");
}

void DownDriver::OnStopped(size_t index, const TaskResult& result) {
  const auto stopped = ParseStopped(result.output);
  if (!result.is_success() || !stopped) return Fail(index, FailureOf("end its Ray", result));
  if (stopped->left > 0) {
    return Fail(index, {ErrorCode::kNodeSetupFailed,
                        fmt::format("{} of its Ray cannot be ended", ProcessesText(stopped->left)),
                        "they hang in the kernel, or belong to another user: look with ps"});
  }
  nodes_[index].effects.Note(cluster_note::RayStopped{static_cast<int>(index), stopped->found});
  // Looks once more: something may have started meanwhile.
  Call(index, State::kChecking, "survey");
}

void DownDriver::OnChecked(size_t index, const TaskResult& result) {
  if (!result.is_success()) return Fail(index, FailureOf("look at the node", result));
  const NodeSurvey survey = ParseSurvey(result.output);
  if (survey.processes > 0 || survey.containers > 0) {
    return Fail(index, {ErrorCode::kNodeSetupFailed,
                        fmt::format("{} of its Ray runs again{}", ProcessesText(survey.processes),
                                    survey.containers > 0 ? ", and so does its container" : ""),
                        "something there restarts it"});
  }
  nodes_[index].state = State::kEnded;
  nodes_[index].ended = now_;
  nodes_[index].effects.Note(cluster_note::NodeEnded{static_cast<int>(index)});
  nodes_[index].effects.Say(fmt::format("ended {}{}; none is left",
                                        ProcessesText(nodes_[index].processes),
                                        nodes_[index].has_container ? " and the container" : ""));
  StopNext();
}

void DownDriver::Fail(size_t index, const Status& why) {
  nodes_[index].state = State::kFailed;
  nodes_[index].due.reset();
  nodes_[index].why = why;
  nodes_[index].effects.Note(cluster_note::NodeFailed{static_cast<int>(index), why});
  nodes_[index].effects.ReportError(why);
  if (!is_planned_) return MakePlan();
  if (is_working_) return StopNext();
  FinishIfOver();
}

void DownDriver::FinishIfOver() {
  const size_t failed = CountAt(State::kFailed);
  if (is_over_ || !is_planned_ || CountAt(State::kEnded) + failed < nodes_.size()) return;
  is_over_ = true;
  if (!policy_.last_words.empty()) {
    effects_.emplace_back(cluster_effect::Say{
        failed == 0 ? policy_.last_words
                    : fmt::format("{} may still run: call down again", Count(failed, "node"))});
  }
  effects_.emplace_back(cluster_effect::Finish{failed == 0 ? 0 : kHvdrayFailed});
}

}  // namespace hvdray
