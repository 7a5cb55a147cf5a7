// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_driver.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cluster/up/lease.h"
#include "launcher/job/exit_code.h"

namespace hvdray {
namespace {

bool IsCopy(const NodeStep& step) {
  return step.kind == StepKind::kFiles || step.kind == StepKind::kBootstrap;
}

Status AfterHeadFailed() { return {ErrorCode::kCancelled, "set up, but the head failed"}; }

bool IsEnd(UpState state) { return state == UpState::kUp || state == UpState::kFailed; }

/// The verb of the node script that does such a step.
std::string_view Verb(StepKind kind) {
  switch (kind) {
    case StepKind::kFiles:
    case StepKind::kBootstrap:
      return "mark";
    case StepKind::kInitialization:
      return "init";
    case StepKind::kContainer:
      return "container";
    case StepKind::kSetup:
      return "step";
    case StepKind::kStart:
      return "start";
  }
  return "?";
}

NodePhase PhaseOf(UpState state) {
  switch (state) {
    case UpState::kLoggingIn:
    case UpState::kLooking:
    case UpState::kLeasing:
    case UpState::kSettingUp:
    case UpState::kChecking:
    case UpState::kStarting:
    case UpState::kJoining:
      return NodePhase::kAtWork;
    case UpState::kWaiting:
    case UpState::kForHead:
      return NodePhase::kWaiting;
    case UpState::kUp:
      return NodePhase::kDone;
    case UpState::kFailed:
      return NodePhase::kFailed;
  }
  return NodePhase::kAtWork;
}

std::string_view Name(UpNeed need) {
  switch (need) {
    case UpNeed::kKeep:
      return "keep";
    case UpNeed::kCreate:
      return "create";
    case UpNeed::kChange:
      return "change";
  }
  return "?";
}

}  // namespace

std::string_view Name(UpState state) {
  switch (state) {
    case UpState::kLoggingIn:
      return "logging in";
    case UpState::kLooking:
      return "looking";
    case UpState::kWaiting:
      return "waiting for the plan";
    case UpState::kLeasing:
      return "setting its lease";
    case UpState::kSettingUp:
      return "setting up";
    case UpState::kChecking:
      return "checking versions";
    case UpState::kForHead:
      return "waiting for the head";
    case UpState::kStarting:
      return "starting Ray";
    case UpState::kJoining:
      return "joining";
    case UpState::kUp:
      return "up";
    case UpState::kFailed:
      return "failed";
  }
  return "?";
}

UpDriver::UpDriver(UpPolicy policy, std::vector<UpNode> nodes, std::string token)
    : policy_(std::move(policy)), token_(std::move(token)) {
  for (UpNode& plan : nodes) {
    nodes_.push_back({.plan = std::move(plan), .retry = {TimePoint{}, Duration::zero()}});
  }
}

ClusterEffects UpDriver::Begin(TimePoint now) {
  now_ = began_ = now;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    nodes_[node].retry = {now, policy_.log_in_limit};
    if (!nodes_[node].plan.why.ok()) {
      Fail(node, nodes_[node].plan.why);
    } else {
      effects_.emplace_back(cluster_effect::LogIn{static_cast<int>(node)});
    }
  }
  return std::exchange(effects_, {});
}

ClusterEffects UpDriver::Handle(const ClusterEvent& event, TimePoint now) {
  now_ = now;
  if (!is_over_) std::visit([this](const auto& fact) { On(fact); }, event);
  return std::exchange(effects_, {});
}

std::optional<TimePoint> UpDriver::NextDeadline() const {
  if (is_over_) return std::nullopt;
  std::optional<TimePoint> next = ask_at_;
  for (const Node& node : nodes_) {
    for (const std::optional<TimePoint>& at : {node.try_at, node.look_at}) {
      if (at && (!next || *at < *next)) next = at;
    }
  }
  return next;
}

std::vector<NodeRow> UpDriver::Rows() const {
  std::vector<NodeRow> rows;
  rows.reserve(nodes_.size());
  for (const Node& node : nodes_) {
    NodeRow& row = rows.emplace_back();
    row.address = node.plan.address;
    row.is_head = rows.size() == 1;
    if (node.is_decided) row.need = Name(node.need);
    row.state = Name(node.state);
    row.phase = PhaseOf(node.state);
    row.processes = node.found_processes;
    row.steps = node.steps;
    row.copied = node.copied;
    row.versions = node.versions;
    row.why = node.why;
    if (node.plan.boot > Duration::zero()) row.boot = node.plan.boot;
    if (node.logged_in) row.log_in = *node.logged_in - began_;
    if (node.set_up && node.need != UpNeed::kKeep) row.set_up = *node.set_up - node.worked;
    if (node.joined && node.is_restarting) row.join = *node.joined - *node.set_up;
  }
  return rows;
}

void UpDriver::Enter(size_t index, UpState next) {
  const Node& node = nodes_[index];
  const int number = static_cast<int>(index);
  nodes_[index].state = next;
  if (next == UpState::kUp) Note(cluster_note::NodeUp{number, node.is_restarting});
  if (next == UpState::kFailed) Note(cluster_note::NodeFailed{number, node.why});
}

void UpDriver::Run(size_t node, NodeTask task) {
  effects_.emplace_back(cluster_effect::Run{static_cast<int>(node), std::move(task)});
}

void UpDriver::Call(size_t node, std::string verb, std::vector<std::string> arguments) {
  NodeTask task;
  task.verb = std::move(verb);
  task.arguments = std::move(arguments);
  Run(node, std::move(task));
}

void UpDriver::Say(size_t node, const std::string& text, bool is_step) {
  effects_.emplace_back(
      cluster_effect::Say{fmt::format("{}: {}", nodes_[node].plan.address, text), is_step});
}

bool UpDriver::IsAnyAt(UpState state) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [state](const Node& node) { return node.state == state; });
}

// ---- logging in and looking

void UpDriver::On(const cluster_event::LoggedIn& fact) {
  const auto node = static_cast<size_t>(fact.node);
  if (nodes_[node].state != UpState::kLoggingIn) return;
  nodes_[node].logged_in = now_;
  Enter(node, UpState::kLooking);
  std::vector<std::string> claim;
  if (!policy_.is_dry_run) claim = {"claim", policy_.who};
  Call(node, "survey", std::move(claim));
}

void UpDriver::On(const cluster_event::Lost& fact) {
  const auto index = static_cast<size_t>(fact.node);
  Node& node = nodes_[index];
  if (IsHead(index)) {
    is_asking_ = is_noting_ = false;
    is_head_lost_ = node.state != UpState::kLoggingIn;
  }
  if (node.state == UpState::kFailed) return;
  if (node.state == UpState::kUp) {
    // Its part is done, but only the head's agent can say who has joined.
    if (!IsHead(index)) return;
    for (size_t other = 1; other < nodes_.size(); ++other) {
      if (IsEnd(nodes_[other].state)) continue;
      Fail(other, Status(fact.why).WithContext("the link to the head is lost"));
    }
    return FinishIfOver();
  }
  if (node.state != UpState::kLoggingIn) {
    const bool is_starting =
        node.state == UpState::kStarting && node.stage == StartStage::kCommands;
    if (node.state == UpState::kSettingUp || is_starting) NoteStepDone(index, {.why = fact.why});
    return Fail(index, fact.why);
  }
  node.try_at = node.retry.After(fact.why, now_);
  if (!node.try_at) {
    const bool is_late = node.retry.tries() > 0 && now_ > began_;
    return Fail(index,
                is_late ? Status(fact.why).WithContext(fmt::format(
                              "no log-in within {:.0f} s", Seconds(policy_.log_in_limit).count()))
                        : fact.why);
  }
  const Duration left = node.retry.until() - now_;
  Note(cluster_note::Waiting{fact.node, fact.why, left});
  Say(index, LogInRetry::Text(fact.why, left));
}

void UpDriver::On(const event::Tick& /*fact*/) {
  for (size_t index = 0; index < nodes_.size(); ++index) {
    Node& node = nodes_[index];
    if (node.look_at && *node.look_at <= now_) {
      node.look_at.reset();
      if (node.state == UpState::kStarting) Call(index, "survey");
    }
    if (!node.try_at || *node.try_at > now_) continue;
    node.try_at.reset();
    effects_.emplace_back(cluster_effect::LogIn{static_cast<int>(index)});
  }
  if (ask_at_ && *ask_at_ <= now_) {
    ask_at_.reset();
    AskForNodes();
  }
}

void UpDriver::On(const cluster_event::Done& fact) {
  const auto node = static_cast<size_t>(fact.node);
  if (IsHead(node) && std::exchange(is_asking_, false)) return OnNodes(fact.result);
  if (IsHead(node) && std::exchange(is_noting_, false)) return OnMembersNoted(fact.result);
  switch (nodes_[node].state) {
    case UpState::kLooking:
      return OnLooked(node, fact.result);
    case UpState::kLeasing:
      if (!fact.result.is_success()) {
        return Fail(node, FailureOf("set the lease", fact.result));
      }
      return WorkOn(node);
    case UpState::kSettingUp:
      return OnStepDone(node, fact.result);
    case UpState::kChecking:
      return OnVersions(node, fact.result);
    case UpState::kStarting:
      return OnStartStage(node, fact.result);
    case UpState::kLoggingIn:
    case UpState::kWaiting:
    case UpState::kForHead:
    case UpState::kJoining:
    case UpState::kUp:
    case UpState::kFailed:
      return;
  }
}

void UpDriver::OnLooked(size_t index, const TaskResult& result) {
  Node& node = nodes_[index];
  if (!result.is_success()) return Fail(index, FailureOf("look at the node", result));
  node.survey = ParseSurvey(result.output);
  node.found_processes = node.survey.processes;
  if (IsHead(index)) members_ = node.survey.members;
  if (!node.survey.at_work.empty()) {
    return Fail(index, {ErrorCode::kNodeSetupFailed,
                        "another hvdray up is already running on this node: " + node.survey.at_work,
                        "wait for its end, or end it; then call up again"});
  }
  const std::string expected = IsHead(index) ? "" : policy_.head;
  const bool is_foreign = node.survey.processes > 0 && node.survey.joined_head != expected;
  if (is_foreign && policy_.is_exclusive) node.survey.ray_node.clear();
  if (is_foreign && !policy_.is_exclusive) {
    const std::string whose = node.survey.joined_head.empty()
                                  ? "it is the head of"
                                  : "it belongs to the head " + node.survey.joined_head + " in";
    return Fail(index,
                {ErrorCode::kUsage, fmt::format("{} another cluster '{}'", whose, policy_.cluster),
                 "end that cluster first (hvdray down with its file), or rename this one "
                 "(--cluster-name)"});
  }
  const bool has_ray = !node.survey.ray_node.empty() && node.survey.has_gcs;
  if (IsHead(index) && has_ray) return AskForNodes();
  Enter(index, UpState::kWaiting);
  MakePlan();
}

void UpDriver::AskForNodes() {
  if (is_asking_ || is_noting_) return;
  is_asking_ = true;
  Call(0, "nodes");
}

void UpDriver::OnNodes(const TaskResult& result) {
  JoinedNodes nodes;
  if (result.is_success()) {
    nodes = ParseJoinedNodes(result.output);
  } else {
    nodes.problem = FailureOf("ask the head", result).message();
  }
  if (head().state == UpState::kLooking) {
    ray_nodes_ = std::move(nodes);
    Enter(0, UpState::kWaiting);
    return MakePlan();
  }
  NoteJoined(nodes);
}

// ---- the plan

void UpDriver::MakePlan() {
  if (is_planned_ || IsAnyAt(UpState::kLoggingIn) || IsAnyAt(UpState::kLooking)) return;
  is_planned_ = true;
  for (size_t node = 0; node < nodes_.size(); ++node) {
    if (nodes_[node].state == UpState::kWaiting) Decide(node);
  }
  DecideLease();
  SayPlan();
  SayLease();
  if (head().state == UpState::kFailed) {
    // Without it no worker could join.
    for (size_t node = 1; node < nodes_.size(); ++node) {
      if (nodes_[node].state == UpState::kFailed) continue;
      nodes_[node].why = {ErrorCode::kCancelled, "the head failed"};
      Enter(node, UpState::kFailed);
    }
    return FinishIfOver();
  }
  if (policy_.is_dry_run) {
    is_over_ = true;
    effects_.emplace_back(cluster_effect::Finish{IsAnyAt(UpState::kFailed) ? kHvdrayFailed : 0});
    return;
  }
  const bool is_any_change = std::any_of(nodes_.begin(), nodes_.end(), [](const Node& node) {
    return node.state == UpState::kWaiting && node.need != UpNeed::kKeep;
  });
  if (!is_any_change || policy_.is_confirmed) return Work();
  effects_.emplace_back(
      cluster_effect::Ask{fmt::format("Do this to cluster {}? [y/N] ", policy_.cluster)});
}

void UpDriver::Decide(size_t index) {
  Node& node = nodes_[index];
  node.is_decided = true;
  const std::vector<NodeStep>& steps = node.plan.steps;
  const size_t set_up_end = FirstStart(steps);
  const size_t done = policy_.is_setup_forced ? 0 : CountDone(steps, node.survey.record);
  const NodeStep* container = FindContainer(steps);
  const bool is_container_due =
      container != nullptr &&
      (policy_.is_setup_forced || node.survey.container != container->config);
  node.step = policy_.is_restart_only ? set_up_end : std::min(done, set_up_end);
  // What was done in a container that is gone is gone with it.
  if (is_container_due) {
    node.step = std::min(done, static_cast<size_t>(container - steps.data()));
  }
  // Where the head gives no answer, a raylet that runs counts.
  const bool is_listed =
      !ray_nodes_.problem.empty() || ray_nodes_.alive.contains(node.survey.ray_node);
  const bool has_ray =
      !node.survey.ray_node.empty() && (IsHead(index) ? node.survey.has_gcs : is_listed);
  if (!has_ray || is_container_due || (!IsHead(index) && head().is_restarting)) {
    node.is_restarting = true;
  } else if (!policy_.is_no_restart) {
    node.is_restarting = policy_.is_restart_only || done < steps.size();
  }
  if (!node.is_restarting && node.step == set_up_end) {
    node.need = UpNeed::kKeep;
  } else {
    node.need = node.survey.processes > 0 ? UpNeed::kChange : UpNeed::kCreate;
  }
}

void UpDriver::DecideLease() {
  for (const Node& node : nodes_) {
    int64_t& latest = node.survey.lease > policy_.wall_time ? lease_ : ended_lease_;
    latest = std::max(latest, node.survey.lease);
  }
  if (policy_.lease) lease_ = *policy_.lease;
}

void UpDriver::SayLease() {
  std::string text;
  if (policy_.lease && lease_ != 0) {
    text = fmt::format("lease until {}", LeaseText(lease_));
  } else if (policy_.lease) {
    text = "no lease";
  } else if (lease_ != 0) {
    text = fmt::format("lease until {}, as before; --lease renews it", LeaseText(lease_));
  } else if (ended_lease_ != 0) {
    text = fmt::format("its lease ended at {}; now it has none", LeaseText(ended_lease_));
  }
  if (!text.empty()) {
    effects_.emplace_back(
        cluster_effect::Say{fmt::format("cluster {}: {}", policy_.cluster, text)});
  }
}

void UpDriver::SayPlan() {
  cluster_note::Planned planned;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    const Node& node = nodes_[index];
    if (node.state == UpState::kFailed) continue;
    const size_t set_up = FirstStart(node.plan.steps) - node.step;
    planned.nodes.push_back({static_cast<int>(index), Name(node.need), static_cast<int>(set_up),
                             node.is_restarting, node.survey.processes});
    std::string what;
    if (set_up > 0) {
      what =
          fmt::format("; {} from {}", Count(set_up, "step"), StepText(node.plan.steps[node.step]));
    }
    if (node.is_restarting) {
      const bool is_first = node.survey.processes == 0;
      what += is_first ? "; start Ray" : "; restart Ray";
    }
    Say(index, fmt::format("{}{}{}", Name(node.need), IsHead(index) ? " (head)" : "", what));
  }
  Note(std::move(planned));
  std::vector<std::string> foreign_addresses;
  for (const auto& [id, address] : ray_nodes_.alive) {
    const bool is_ours = std::any_of(nodes_.begin(), nodes_.end(), [&id = id](const Node& node) {
      return node.survey.ray_node == id;
    });
    if (!is_ours) foreign_addresses.push_back(address);
  }
  if (!foreign_addresses.empty() && !head().is_restarting) {
    Say(0,
        fmt::format("its Ray also lists {}, of which this run knows nothing: ended a moment ago, "
                    "or left out of the file or by --max-workers; it is left alone",
                    fmt::join(foreign_addresses, ", ")));
  }
}

void UpDriver::On(const cluster_event::Answer& fact) {
  if (!is_planned_ || is_working_) return;
  if (fact.is_yes) return Work();
  is_over_ = true;
  effects_.emplace_back(cluster_effect::Say{"nothing was changed"});
  effects_.emplace_back(cluster_effect::Finish{kNothingDone});
}

// ---- setting up

void UpDriver::Work() {
  is_working_ = true;
  for (size_t index = 0; index < nodes_.size(); ++index) {
    Node& node = nodes_[index];
    if (node.state != UpState::kWaiting) continue;
    node.worked = now_;
    const bool is_leased = lease_ == 0
                               ? node.survey.lease == 0 && !node.survey.has_lease_ended
                               : node.survey.lease == lease_ && node.survey.is_lease_watched;
    if (is_leased) {
      WorkOn(index);
    } else {
      // Before all else: what a killed run has started also ends in time.
      Enter(index, UpState::kLeasing);
      Call(index, "lease", {FormatLeaseEnd(lease_), policy_.is_powered_off ? "poweroff" : "stay"});
    }
  }
  FinishIfOver();
}

void UpDriver::WorkOn(size_t index) {
  Node& node = nodes_[index];
  const bool is_any_starting = std::any_of(nodes_.begin() + 1, nodes_.end(), [](const Node& other) {
    return !IsEnd(other.state) && other.is_restarting;
  });
  if (node.need != UpNeed::kKeep) {
    Enter(index, UpState::kSettingUp);
    NextStep(index);
  } else if (IsHead(index) && is_any_starting) {
    // Workers need its versions and its token.
    node.set_up = now_;
    CheckVersions(index);
  } else {
    node.set_up = now_;
    EnterUp(index);
  }
}

void UpDriver::NextStep(size_t index) {
  Node& node = nodes_[index];
  if (node.step < FirstStart(node.plan.steps)) return RunStep(index);
  EndSetUp(index);
}

void UpDriver::RunStep(size_t index) {
  Node& node = nodes_[index];
  const NodeStep& step = node.plan.steps[node.step];
  SayStep(index, StepText(step));
  node.step_began = now_;
  node.step_copied.reset();
  Note(cluster_note::StepStarted{static_cast<int>(index), step});
  NodeTask task;
  if (IsCopy(step)) {
    task.kind = step.kind == StepKind::kFiles ? NodeTask::Kind::kFiles : NodeTask::Kind::kBootstrap;
    return Run(index, std::move(task));
  }
  task.verb = Verb(step.kind);
  task.arguments = {std::to_string(node.step), step.hash};
  if (step.kind == StepKind::kContainer) {
    task.arguments.insert(task.arguments.end(),
                          {policy_.is_setup_forced ? "force" : "keep", step.config});
    task.arguments.insert(task.arguments.end(), step.arguments.begin(), step.arguments.end());
  } else {
    task.arguments.push_back(step.command);
  }
  if (step.kind == StepKind::kStart) {
    task.arguments.insert(task.arguments.end(), node.plan.exports.begin(), node.plan.exports.end());
  }
  task.is_shown = true;
  Run(index, std::move(task));
}

void UpDriver::OnStepDone(size_t index, const TaskResult& result) {
  Node& node = nodes_[index];
  const NodeStep& step = node.plan.steps[node.step];
  if (!result.is_success()) return FailStep(index, step, result);
  // A copy has no shell text of its own that could record it.
  if (IsCopy(step) && !node.is_marking) {
    if (result.copied) NoteCopied(index, *result.copied);
    node.is_marking = true;
    std::vector<std::string> words = {std::to_string(node.step), step.hash};
    words.insert(words.end(), step.arguments.begin(), step.arguments.end());
    return Call(index, "mark", std::move(words));
  }
  NoteStepDone(index, result);
  node.is_marking = false;
  ++node.step;
  NextStep(index);
}

void UpDriver::NoteStepDone(size_t index, const TaskResult& result) {
  Node& node = nodes_[index];
  const NodeStep& step = node.plan.steps[node.step];
  StepOutcome outcome;
  outcome.kind = step.kind;
  outcome.number = step.number;
  outcome.count = step.count;
  outcome.hash = step.hash;
  outcome.exit_code = result.exit_code;
  if (!result.is_success()) outcome.why = StepFailure(step, result);
  outcome.took = now_ - node.step_began;
  if (IsCopy(step)) outcome.copied = node.step_copied;
  node.steps.push_back(outcome);
  Note(cluster_note::StepDone{static_cast<int>(index), std::move(outcome)});
}

void UpDriver::NoteCopied(size_t index, const SyncStats& copied) {
  Node& node = nodes_[index];
  Say(index, fmt::format("copied {}, {} bytes", Count(copied.files, "file"), copied.bytes));
  node.step_copied = copied;
  SyncStats all = node.copied.value_or(SyncStats());
  all.files += copied.files;
  all.bytes += copied.bytes;
  all.time += copied.time;
  node.copied = all;
}

void UpDriver::EndSetUp(size_t index) {
  Node& node = nodes_[index];
  node.set_up = now_;
  // With --no-restart, only the set-up changed.
  if (!node.is_restarting && !IsHead(index)) return EnterUp(index);
  CheckVersions(index);
}

/// Where the text of the start commands does not tell which Ray they start, they themselves show
/// it.
void UpDriver::CheckVersions(size_t index) {
  Node& node = nodes_[index];
  Enter(index, UpState::kChecking);
  for (size_t step = FirstStart(node.plan.steps); step < node.plan.steps.size(); ++step) {
    std::optional<RayReach> reach = ReachOfRay(node.plan.steps[step].command);
    if (!reach) continue;
    node.reach = std::move(*reach);
    return Call(index, "versions", {node.reach.before, node.reach.program});
  }
  Enter(index, UpState::kForHead);
  OfferStart(index);
}

void UpDriver::OnVersions(size_t index, const TaskResult& result) {
  Node& node = nodes_[index];
  if (result.is_success()) node.versions = ParseVersions(result.output);
  if (!node.versions) {
    return Fail(index, FailureOf("ask for Ray's version", result));
  }
  if (node.versions->ray.empty()) {
    if (node.reach.is_certain) {
      const std::string& program = node.reach.program;
      const bool is_path = program.find('/') != std::string::npos;
      return Fail(index, {ErrorCode::kNodeSetupFailed,
                          fmt::format("no Ray: '{}' is not {} there", program,
                                      is_path ? "a program" : "on the PATH"),
                          "install it by setup_commands: pip install \"ray[default]\""});
    }
    node.versions.reset();
  }
  Enter(index, UpState::kForHead);
  OfferStart(index);
}

void UpDriver::OfferStart(size_t index) {
  Node& node = nodes_[index];
  if (IsHead(index)) return OfferHeadStart();
  if (head().state == UpState::kFailed) {
    return Fail(index, AfterHeadFailed());
  }
  if (head().state == UpState::kForHead && IsInHeadsWay(node)) {
    return NextStartStage(index, StartStage::kStop);
  }
  if (!IsHeadOpen()) return;
  if (node.versions && head().versions && node.versions != head().versions) {
    const RayVersions& ours = *node.versions;
    const RayVersions& heads = *head().versions;
    return Fail(index,
                {ErrorCode::kNodeSetupFailed,
                 fmt::format("has Ray {} with Python {}, but the head has Ray {} with Python {}",
                             ours.ray, ours.python, heads.ray, heads.python),
                 "Ray refuses such a worker: install the same versions on all nodes"});
  }
  NextStartStage(index, StartStage::kToken);
}

// ---- starting Ray

/// Its Ray belongs to the head that is about to end.
bool UpDriver::IsInHeadsWay(const Node& node) {
  return node.is_restarting && node.survey.processes > 0 && !IsEnd(node.state);
}

void UpDriver::OfferHeadStart() {
  if (head().state != UpState::kForHead) return;
  bool is_free = true;
  for (size_t index = 1; index < nodes_.size() && head().is_restarting; ++index) {
    if (!IsInHeadsWay(nodes_[index])) continue;
    is_free = false;
    if (nodes_[index].state == UpState::kForHead) NextStartStage(index, StartStage::kStop);
  }
  if (is_free) NextStartStage(0, StartStage::kToken);
}

void UpDriver::On(const cluster_event::Listening& fact) {
  if (!IsHead(static_cast<size_t>(fact.node)) || head().state != UpState::kStarting) return;
  is_head_listening_ = true;
  OfferWorkers();
}

void UpDriver::OfferWorkers() {
  for (size_t other = 1; other < nodes_.size(); ++other) {
    if (nodes_[other].state == UpState::kForHead) OfferStart(other);
  }
}

void UpDriver::NextStartStage(size_t index, StartStage stage) {
  Node& node = nodes_[index];
  Enter(index, UpState::kStarting);
  node.stage = stage;
  NodeTask task;
  switch (stage) {
    case StartStage::kToken:
      task.verb = "token";
      task.arguments = {IsHead(index) ? "keep" : "set"};
      task.input = token_ + "\n";
      return Run(index, std::move(task));
    case StartStage::kStop:
      if (node.survey.processes == 0) return NextStartStage(index, StartStage::kCommands);
      SayStep(index, "stopping its former Ray");
      return Call(index, "stop");
    case StartStage::kCommands:
      node.step = FirstStart(node.plan.steps);
      if (node.step < node.plan.steps.size()) return RunStep(index);
      return Fail(index, {ErrorCode::kSpecInvalid, "the file has no command that starts Ray here"});
    case StartStage::kLook:
      return Call(index, "survey");
  }
}

void UpDriver::OnStartStage(size_t index, const TaskResult& result) {
  Node& node = nodes_[index];
  if (!IsHead(index) && head().state == UpState::kFailed) {
    // What its own command says now follows from that.
    if (node.stage == StartStage::kCommands) NoteStepDone(index, result);
    return Fail(index, AfterHeadFailed());
  }
  switch (node.stage) {
    case StartStage::kToken: {
      const std::string token = ParseToken(result.output);
      if (!result.is_success() || token.empty()) {
        return Fail(index, FailureOf("store Ray's token", result));
      }
      if (IsHead(index)) token_ = token;
      if (!node.is_restarting) return EnterUp(index);
      return NextStartStage(index, StartStage::kStop);
    }
    case StartStage::kStop: {
      const auto stopped = ParseStopped(result.output);
      if (!result.is_success() || !stopped) {
        return Fail(index, FailureOf("stop its former Ray", result));
      }
      if (stopped->left > 0) {
        return Fail(
            index, {ErrorCode::kNodeSetupFailed, fmt::format("{} of its former Ray cannot be ended",
                                                             ProcessesText(stopped->left))});
      }
      node.survey.processes = 0;
      Note(cluster_note::RayStopped{static_cast<int>(index), stopped->found});
      if (!IsHead(index) && !IsHeadOpen()) {
        Enter(index, UpState::kForHead);
        return head().state == UpState::kFailed ? OfferStart(index) : OfferHeadStart();
      }
      return NextStartStage(index, StartStage::kCommands);
    }
    case StartStage::kCommands:
      if (!result.is_success()) return FailStep(index, node.plan.steps[node.step], result);
      NoteStepDone(index, result);
      if (++node.step < node.plan.steps.size()) return RunStep(index);
      return NextStartStage(index, StartStage::kLook);
    case StartStage::kLook:
      return OnStarted(index, result);
  }
}

void UpDriver::OnStarted(size_t index, const TaskResult& result) {
  Node& node = nodes_[index];
  if (!result.is_success()) return Fail(index, FailureOf("look at its Ray", result));
  node.survey = ParseSurvey(result.output);
  const bool is_there = !node.survey.ray_node.empty() && (!IsHead(index) || node.survey.has_gcs);
  if (!is_there) {
    // A command may leave something behind it that starts Ray: `nohup ray start … &`.
    if (!node.look_until) node.look_until = now_ + policy_.join_limit;
    if (node.survey.processes > 0 && now_ < *node.look_until) {
      node.look_at = now_ + policy_.join_pause;
      return;
    }
    return Fail(index, {ErrorCode::kNodeSetupFailed,
                        "its start commands ended without an error, but no Ray runs",
                        "look there at /tmp/ray/session_latest/logs"});
  }
  node.started = now_;
  Note(cluster_note::RayStarted{static_cast<int>(index)});
  Enter(index, UpState::kJoining);
  // Until the head's own start is over, it does nothing else.
  if (head().state != UpState::kStarting) AskForNodes();
}

void UpDriver::NoteJoined(const JoinedNodes& nodes) {
  for (size_t index = 0; index < nodes_.size(); ++index) {
    Node& node = nodes_[index];
    if (node.state != UpState::kJoining) continue;
    // A raylet that runs has found the head's GCS.
    if (nodes.is_without_dashboard || nodes.alive.contains(node.survey.ray_node)) {
      EnterUp(index);
    } else if (now_ - std::max(node.started, head().started) >= policy_.join_limit) {
      Fail(index, {ErrorCode::kNodeSetupFailed,
                   fmt::format("the head does not list it as ALIVE after {:.0f} s{}{}",
                               Seconds(policy_.join_limit).count(),
                               nodes.problem.empty() ? "" : ": ", nodes.problem),
                   "look there at /tmp/ray/session_latest/logs/raylet.out"});
    }
  }
  if (IsAnyAt(UpState::kJoining)) ask_at_ = now_ + policy_.join_pause;
  NoteMembers();
  FinishIfOver();
}

// ---- which node runs on which machine

std::vector<std::string> UpDriver::MembersNow() const {
  std::vector<std::string> members = members_;
  for (const Node& node : nodes_) {
    if (node.state != UpState::kUp || node.survey.ray_node.empty()) continue;
    const std::string name = node.plan.address + " ";
    const std::string& ip = node.survey.address;
    std::string line = name + node.survey.ray_node + " " + (ip.empty() ? "-" : ip);
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
  if (!IsHeadUp() || is_head_lost_ || is_asking_ || is_noting_) return false;
  std::vector<std::string> members = MembersNow();
  if (members == members_) return false;
  members_ = std::move(members);
  is_noting_ = true;
  Call(0, "members", members_);
  return true;
}

void UpDriver::OnMembersNoted(const TaskResult& result) {
  // The cluster is up all the same, and where addresses are equal nobody needs it.
  if (!result.is_success()) {
    Say(0, FailureOf("note which nodes are Ray's", result).message());
  }
  if (IsAnyAt(UpState::kJoining)) AskForNodes();
  FinishIfOver();
}

// ---- ends

void UpDriver::EnterUp(size_t index) {
  Node& node = nodes_[index];
  node.joined = now_;
  if (node.is_restarting) {
    SayStep(index, IsHead(index) ? "Ray is up" : "has joined");
  } else if (node.need == UpNeed::kChange || node.need == UpNeed::kCreate) {
    SayStep(index, "set up");
  }
  Enter(index, UpState::kUp);
  if (IsHead(index)) OfferWorkers();
  FinishIfOver();
}

void UpDriver::FailStep(size_t index, const NodeStep& step, const TaskResult& result) {
  for (const std::string& line : result.last_lines) Say(index, "  | " + line);
  NoteStepDone(index, result);
  Fail(index, StepFailure(step, result));
}

Status UpDriver::StepFailure(const NodeStep& step, const TaskResult& result) const {
  if (!result.why.ok()) return Status(result.why).WithContext(StepText(step));
  return {ErrorCode::kNodeSetupFailed, fmt::format("{}: {}", StepText(step), EndText(result)),
          fmt::format("its last lines are above; try it there by hand, mend it, and call '{}' "
                      "again: it goes on at this step",
                      policy_.command)};
}

void UpDriver::Fail(size_t index, Status why) {
  Node& node = nodes_[index];
  node.why = std::move(why);
  if (!node.set_up && node.worked != TimePoint{}) node.set_up = now_;
  Enter(index, UpState::kFailed);
  // What follows from the head's failure is told in the table alone.
  if (node.why.code() != ErrorCode::kCancelled) {
    effects_.emplace_back(
        cluster_effect::ReportError{Status(node.why).WithContext(node.plan.address)});
  }
  if (!is_planned_) return MakePlan();
  if (!IsHead(index)) OfferHeadStart();
  if (IsHead(index)) {
    for (size_t other = 1; other < nodes_.size(); ++other) {
      const UpState state = nodes_[other].state;
      if (state == UpState::kForHead) OfferStart(other);
      if (state == UpState::kJoining) {
        Fail(other, AfterHeadFailed());
      }
    }
  }
  FinishIfOver();
}

void UpDriver::FinishIfOver() {
  if (is_over_ || !is_planned_) return;
  const bool is_all_ended =
      std::all_of(nodes_.begin(), nodes_.end(), [](const Node& node) { return IsEnd(node.state); });
  if (!is_all_ended || is_noting_ || NoteMembers()) return;
  is_over_ = true;
  effects_.emplace_back(cluster_effect::Finish{IsAnyAt(UpState::kFailed) ? kHvdrayFailed : 0});
}

}  // namespace hvdray
