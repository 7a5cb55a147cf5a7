// SPDX-License-Identifier: Apache-2.0
#include "cluster/up/step_runner.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"

namespace hvdray {
namespace {

bool IsCopy(const NodeStep& step) {
  return step.kind == StepKind::kFiles || step.kind == StepKind::kBootstrap;
}

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

Status StepFailure(const NodeStep& step, const TaskResult& result, const std::string& command) {
  if (!result.why.ok()) return Status(result.why).WithContext(StepText(step));
  return {ErrorCode::kNodeSetupFailed, fmt::format("{}: {}", StepText(step), EndText(result)),
          fmt::format("its last lines are above; try it there by hand, mend it, and call '{}' "
                      "again: it goes on at this step",
                      command)};
}

}  // namespace

void StepRunner::Begin(NodeEffects& effects, bool is_forced, TimePoint now) {
  const NodeStep& step = steps_[next_];
  effects.SayStep(StepText(step));
  began_ = now;
  step_copied_.reset();
  effects.Note(cluster_note::StepStarted{effects.node(), step});
  NodeTask task;
  if (IsCopy(step)) {
    task.kind = step.kind == StepKind::kFiles ? NodeTask::Kind::kFiles : NodeTask::Kind::kBootstrap;
    return effects.Run(std::move(task));
  }
  task.verb = Verb(step.kind);
  task.arguments = {std::to_string(next_), step.hash};
  if (step.kind == StepKind::kContainer) {
    task.arguments.insert(task.arguments.end(), {is_forced ? "force" : "keep", step.config});
    task.arguments.insert(task.arguments.end(), step.arguments.begin(), step.arguments.end());
  } else {
    task.arguments.push_back(step.command);
  }
  if (step.kind == StepKind::kStart) {
    task.arguments.insert(task.arguments.end(), exports_.begin(), exports_.end());
  }
  task.is_shown = true;
  effects.Run(std::move(task));
}

std::optional<Status> StepRunner::OnDone(NodeEffects& effects, const TaskResult& result,
                                         const std::string& command, TimePoint now) {
  const NodeStep& step = steps_[next_];
  if (!result.is_success()) {
    for (const std::string& line : result.last_lines) effects.Say("  | " + line);
    End(effects, result, command, now);
    return outcomes_.back().why;
  }
  // A copy has no shell text of its own that could record it.
  if (IsCopy(step) && !is_marking_) {
    if (result.copied) OnCopied(effects, *result.copied);
    is_marking_ = true;
    std::vector<std::string> words = {std::to_string(next_), step.hash};
    words.insert(words.end(), step.arguments.begin(), step.arguments.end());
    effects.Call("mark", std::move(words));
    return std::nullopt;
  }
  End(effects, result, command, now);
  is_marking_ = false;
  ++next_;
  return Status();
}

void StepRunner::End(NodeEffects& effects, const TaskResult& result, const std::string& command,
                     TimePoint now) {
  const NodeStep& step = steps_[next_];
  StepOutcome outcome;
  outcome.kind = step.kind;
  outcome.number = step.number;
  outcome.count = step.count;
  outcome.hash = step.hash;
  outcome.exit_code = result.exit_code;
  if (!result.is_success()) outcome.why = StepFailure(step, result, command);
  outcome.took = now - began_;
  if (IsCopy(step)) outcome.copied = step_copied_;
  outcomes_.push_back(outcome);
  effects.Note(cluster_note::StepDone{effects.node(), std::move(outcome)});
}

void StepRunner::OnCopied(NodeEffects& effects, const SyncStats& copied) {
  effects.Say(fmt::format("copied {}, {} bytes", Count(copied.files, "file"), copied.bytes));
  step_copied_ = copied;
  SyncStats all = copied_.value_or(SyncStats());
  all.files += copied.files;
  all.bytes += copied.bytes;
  all.time += copied.time;
  copied_ = all;
}

}  // namespace hvdray
