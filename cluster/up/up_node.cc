// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/up_node.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "cluster/up/lease.h"

namespace hvdray {
namespace {

Status AfterHeadFailed() { return {ErrorCode::kCancelled, "set up, but the head failed"}; }

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

}  // namespace

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

UpNodeDriver::UpNodeDriver(UpContext& context, int number, UpNode plan)
    : context_(context),
      effects_(context.effects, number, std::move(plan.address)),
      steps_(std::move(plan.steps), std::move(plan.exports)),
      boot_(plan.boot),
      missing_(std::move(plan.why)) {}

NodeRow UpNodeDriver::Row() const {
  NodeRow row;
  row.address = effects_.address();
  row.is_head = is_head();
  if (is_decided_) row.need = Name(need_);
  row.state = Name(state_);
  row.phase = PhaseOf(state_);
  row.processes = found_processes_;
  row.steps = steps_.outcomes();
  row.copied = steps_.copied();
  row.versions = versions_;
  row.why = why_;
  if (boot_ > Duration::zero()) row.boot = boot_;
  if (logged_in_) row.log_in = *logged_in_ - context_.began;
  if (set_up_ && worked_ && need_ != UpNeed::kKeep) row.set_up = *set_up_ - *worked_;
  if (joined_ && is_restarting_) row.join = *joined_ - *set_up_;
  return row;
}

// ---- logging in and looking

void UpNodeDriver::LogIn() {
  if (!missing_.ok()) return Fail(missing_);
  log_in_.Begin(effects_, context_.now, context_.policy.log_in_limit);
}

void UpNodeDriver::OnLoggedIn() {
  if (state_ != UpState::kLoggingIn) return;
  logged_in_ = context_.now;
  Enter(UpState::kLooking);
  std::vector<std::string> claim;
  if (!context_.policy.is_dry_run) claim = {"claim", context_.policy.who};
  effects_.Call("survey", std::move(claim));
}

void UpNodeDriver::OnLost(const Status& why) {
  if (IsEnd(state_)) return;
  if (state_ != UpState::kLoggingIn) {
    const bool is_starting = state_ == UpState::kStarting && stage_ == StartStage::kCommands;
    if (state_ == UpState::kSettingUp || is_starting) {
      steps_.End(effects_, {.why = why}, context_.policy.command, context_.now);
    }
    return Fail(why);
  }
  if (log_in_.OnFailed(effects_, why, context_.now)) return;
  const bool is_late = log_in_.tries() > 0 && context_.now > context_.began;
  const auto limit = Seconds(context_.policy.log_in_limit).count();
  Fail(is_late ? Status(why).WithContext(fmt::format("no log-in within {:.0f} s", limit)) : why);
}

void UpNodeDriver::OnTick() {
  if (look_at_ && *look_at_ <= context_.now) {
    look_at_.reset();
    if (state_ == UpState::kStarting) effects_.Call("survey");
  }
  log_in_.OnTick(effects_, context_.now);
}

std::optional<TimePoint> UpNodeDriver::NextDeadline() const {
  return log_in_.next() ? log_in_.next() : look_at_;
}

void UpNodeDriver::OnDone(const TaskResult& result) {
  switch (state_) {
    case UpState::kLooking:
      return OnLooked(result);
    case UpState::kLeasing:
      if (!result.is_success()) return Fail(FailureOf("set the lease", result));
      return SetUp();
    case UpState::kSettingUp: {
      const std::optional<Status> ended =
          steps_.OnDone(effects_, result, context_.policy.command, context_.now);
      if (!ended) return;
      return ended->ok() ? SetUp() : Fail(*ended);
    }
    case UpState::kChecking:
      return OnVersions(result);
    case UpState::kStarting:
      return OnStageDone(result);
    case UpState::kLoggingIn:
    case UpState::kWaiting:
    case UpState::kForHead:
    case UpState::kJoining:
    case UpState::kUp:
    case UpState::kFailed:
      return;
  }
}

void UpNodeDriver::OnLooked(const TaskResult& result) {
  if (!result.is_success()) return Fail(FailureOf("look at the node", result));
  survey_ = ParseSurvey(result.output);
  found_processes_ = survey_.processes;
  if (!survey_.at_work.empty()) {
    return Fail({ErrorCode::kNodeSetupFailed,
                 "another hvdray up is already running on this node: " + survey_.at_work,
                 "wait for its end, or end it; then call up again"});
  }
  const std::string expected = is_head() ? "" : context_.policy.head;
  const bool is_foreign = survey_.processes > 0 && survey_.joined_head != expected;
  if (is_foreign && context_.policy.is_exclusive) survey_.ray_node.clear();
  if (is_foreign && !context_.policy.is_exclusive) {
    const std::string whose = survey_.joined_head.empty()
                                  ? "it is the head of"
                                  : "it belongs to the head " + survey_.joined_head + " in";
    return Fail({ErrorCode::kUsage,
                 fmt::format("{} another cluster '{}'", whose, context_.policy.cluster),
                 "end that cluster first (hvdray down with its file), or rename this one "
                 "(--cluster-name)"});
  }
  const bool is_asked = is_head() && !survey_.ray_node.empty() && survey_.has_gcs;
  if (!is_asked) AwaitPlan();
}

// ---- the plan

NodePlan UpNodeDriver::Decide(const JoinedNodes& listed, const UpNodeDriver& head) {
  const UpPolicy& policy = context_.policy;
  is_decided_ = true;
  const std::vector<NodeStep>& steps = steps_.steps();
  const size_t set_up_end = FirstStart(steps);
  const size_t done = policy.is_setup_forced ? 0 : CountDone(steps, survey_.record);
  const NodeStep* container = FindContainer(steps);
  const bool is_container_due =
      container != nullptr && (policy.is_setup_forced || survey_.container != container->config);
  size_t first = policy.is_restart_only ? set_up_end : std::min(done, set_up_end);
  // What was done in a container that is gone is gone with it.
  if (is_container_due) first = std::min(done, static_cast<size_t>(container - steps.data()));
  steps_.SkipTo(first);
  // Where the head gives no answer, a raylet that runs counts.
  const bool is_listed = !listed.problem.empty() || listed.alive.contains(survey_.ray_node);
  const bool has_ray = !survey_.ray_node.empty() && (is_head() ? survey_.has_gcs : is_listed);
  if (!has_ray || is_container_due || (!is_head() && head.is_restarting_)) {
    is_restarting_ = true;
  } else if (!policy.is_no_restart) {
    is_restarting_ = policy.is_restart_only || done < steps.size();
  }
  const bool has_processes = survey_.processes > 0;
  need_ = has_processes ? UpNeed::kChange : UpNeed::kCreate;
  if (!is_restarting_ && first == set_up_end) need_ = UpNeed::kKeep;
  const size_t set_up = set_up_end - first;
  std::string text = fmt::format("{}{}", Name(need_), is_head() ? " (head)" : "");
  if (set_up > 0) {
    text += fmt::format("; {} from {}", Count(set_up, "step"), StepText(steps[first]));
  }
  if (is_restarting_) text += has_processes ? "; restart Ray" : "; start Ray";
  effects_.Say(text);
  return {effects_.node(), Name(need_), static_cast<int>(set_up), is_restarting_,
          survey_.processes};
}

// ---- setting up

void UpNodeDriver::Work(int64_t lease, bool is_needed) {
  worked_ = context_.now;
  is_needed_ = is_needed;
  const bool is_leased = lease == 0 ? survey_.lease == 0 && !survey_.has_lease_ended
                                    : survey_.lease == lease && survey_.is_lease_watched;
  if (is_leased) return SetUp();
  // Before all else: what a killed run has started also ends in time.
  Enter(UpState::kLeasing);
  effects_.Call("lease",
                {FormatLeaseEnd(lease), context_.policy.is_powered_off ? "poweroff" : "stay"});
}

/// The next step, and after the last one Ray's version. Where the text of the start commands does
/// not tell which Ray they start, they themselves show it.
void UpNodeDriver::SetUp() {
  const std::vector<NodeStep>& steps = steps_.steps();
  if (steps_.next() < FirstStart(steps)) {
    Enter(UpState::kSettingUp);
    return steps_.Begin(effects_, context_.policy.is_setup_forced, context_.now);
  }
  set_up_ = context_.now;
  // With --no-restart, only the set-up changed. Of a head that is kept, workers may need more.
  const bool is_for_workers = is_head() && (is_needed_ || need_ != UpNeed::kKeep);
  if (!is_restarting_ && !is_for_workers) return EnterUp();
  Enter(UpState::kChecking);
  for (size_t step = FirstStart(steps); step < steps.size(); ++step) {
    std::optional<RayReach> reach = ReachOfRay(steps[step].command);
    if (!reach) continue;
    reach_ = std::move(*reach);
    return effects_.Call("versions", {reach_.before, reach_.program});
  }
  Enter(UpState::kForHead);
}

void UpNodeDriver::OnVersions(const TaskResult& result) {
  if (result.is_success()) versions_ = ParseVersions(result.output);
  if (!versions_) return Fail(FailureOf("ask for Ray's version", result));
  if (versions_->ray.empty()) {
    if (reach_.is_certain) {
      const bool is_path = reach_.program.find('/') != std::string::npos;
      return Fail({ErrorCode::kNodeSetupFailed,
                   fmt::format("no Ray: '{}' is not {} there", reach_.program,
                               is_path ? "a program" : "on the PATH"),
                   "install it by setup_commands: pip install \"ray[default]\""});
    }
    versions_.reset();
  }
  Enter(UpState::kForHead);
}

// ---- starting Ray

void UpNodeDriver::ClearForHead() { BeginStage(StartStage::kClear); }

void UpNodeDriver::StartHead(std::string token) {
  token_ = std::move(token);
  BeginStage(StartStage::kToken);
}

void UpNodeDriver::StartWorker(const UpNodeDriver& head) {
  if (versions_ && head.versions_ && versions_ != head.versions_) {
    return Fail({ErrorCode::kNodeSetupFailed,
                 fmt::format("has Ray {} with Python {}, but the head has Ray {} with Python {}",
                             versions_->ray, versions_->python, head.versions_->ray,
                             head.versions_->python),
                 "Ray refuses such a worker: install the same versions on all nodes"});
  }
  token_ = head.token_;
  BeginStage(StartStage::kToken);
}

void UpNodeDriver::BeginStage(StartStage stage) {
  Enter(UpState::kStarting);
  stage_ = stage;
  switch (stage) {
    case StartStage::kToken: {
      NodeTask task;
      task.verb = "token";
      task.arguments = {is_head() ? "keep" : "set"};
      task.input = token_ + "\n";
      return effects_.Run(std::move(task));
    }
    case StartStage::kClear:
    case StartStage::kStop:
      if (survey_.processes == 0) return BeginStage(StartStage::kCommands);
      effects_.SayStep("stopping its former Ray");
      return effects_.Call("stop");
    case StartStage::kCommands:
      steps_.SkipTo(FirstStart(steps_.steps()));
      if (steps_.next() == steps_.steps().size()) {
        return Fail({ErrorCode::kSpecInvalid, "the file has no command that starts Ray here"});
      }
      return steps_.Begin(effects_, context_.policy.is_setup_forced, context_.now);
    case StartStage::kLook:
      return effects_.Call("survey");
  }
}

void UpNodeDriver::OnStageDone(const TaskResult& result) {
  if (is_headless_) {
    // What its own command says now follows from that.
    if (stage_ == StartStage::kCommands) {
      steps_.End(effects_, result, context_.policy.command, context_.now);
    }
    return Fail(AfterHeadFailed());
  }
  switch (stage_) {
    case StartStage::kToken: {
      std::string token = ParseToken(result.output);
      if (!result.is_success() || token.empty()) {
        return Fail(FailureOf("store Ray's token", result));
      }
      token_ = std::move(token);
      return is_restarting_ ? BeginStage(StartStage::kStop) : EnterUp();
    }
    case StartStage::kClear:
    case StartStage::kStop: {
      const auto stopped = ParseStopped(result.output);
      if (!result.is_success() || !stopped) {
        return Fail(FailureOf("stop its former Ray", result));
      }
      if (stopped->left > 0) {
        return Fail(
            {ErrorCode::kNodeSetupFailed,
             fmt::format("{} of its former Ray cannot be ended", ProcessesText(stopped->left))});
      }
      survey_.processes = 0;
      effects_.Note(cluster_note::RayStopped{effects_.node(), stopped->found});
      return stage_ == StartStage::kClear ? Enter(UpState::kForHead)
                                          : BeginStage(StartStage::kCommands);
    }
    case StartStage::kCommands: {
      const std::optional<Status> ended =
          steps_.OnDone(effects_, result, context_.policy.command, context_.now);
      if (!ended) return;
      if (!ended->ok()) return Fail(*ended);
      if (steps_.next() == steps_.steps().size()) return BeginStage(StartStage::kLook);
      return steps_.Begin(effects_, context_.policy.is_setup_forced, context_.now);
    }
    case StartStage::kLook:
      return OnStarted(result);
  }
}

void UpNodeDriver::OnStarted(const TaskResult& result) {
  if (!result.is_success()) return Fail(FailureOf("look at its Ray", result));
  survey_ = ParseSurvey(result.output);
  const bool is_there = !survey_.ray_node.empty() && (!is_head() || survey_.has_gcs);
  if (!is_there) {
    const TimePoint now = context_.now;
    // A command may leave something behind it that starts Ray: `nohup ray start … &`.
    if (!look_until_) look_until_ = now + context_.policy.join_limit;
    if (survey_.processes > 0 && now < *look_until_) {
      look_at_ = now + context_.policy.join_pause;
      return;
    }
    return Fail({ErrorCode::kNodeSetupFailed,
                 "its start commands ended without an error, but no Ray runs",
                 "look there at /tmp/ray/session_latest/logs"});
  }
  started_ = context_.now;
  effects_.Note(cluster_note::RayStarted{effects_.node()});
  Enter(UpState::kJoining);
}

void UpNodeDriver::OnListed(const JoinedNodes& listed, const UpNodeDriver& head) {
  if (state_ != UpState::kJoining) return;
  // A raylet that runs has found the head's GCS.
  if (listed.is_without_dashboard || listed.alive.contains(survey_.ray_node)) return EnterUp();
  const Duration limit = context_.policy.join_limit;
  if (context_.now - std::max(started_, head.started_) < limit) return;
  Fail({ErrorCode::kNodeSetupFailed,
        fmt::format("the head does not list it as ALIVE after {:.0f} s{}{}", Seconds(limit).count(),
                    listed.problem.empty() ? "" : ": ", listed.problem),
        "look there at /tmp/ray/session_latest/logs/raylet.out"});
}

// ---- ends

void UpNodeDriver::EnterUp() {
  joined_ = context_.now;
  if (is_restarting_) {
    effects_.SayStep(is_head() ? "Ray is up" : "has joined");
  } else if (need_ != UpNeed::kKeep) {
    effects_.SayStep("set up");
  }
  Enter(UpState::kUp);
  effects_.Note(cluster_note::NodeUp{effects_.node(), is_restarting_});
}

void UpNodeDriver::LoseHead() {
  if (IsEnd(state_)) return;
  is_headless_ = true;
  if (state_ == UpState::kForHead || state_ == UpState::kJoining) Fail(AfterHeadFailed());
}

void UpNodeDriver::Fail(Status why) {
  why_ = std::move(why);
  if (!set_up_ && worked_) set_up_ = context_.now;
  Enter(UpState::kFailed);
  effects_.Note(cluster_note::NodeFailed{effects_.node(), why_});
  // What follows from the head's failure is told in the table alone.
  if (why_.code() != ErrorCode::kCancelled) effects_.ReportError(why_);
}

}  // namespace hvdray
