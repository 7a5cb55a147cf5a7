// SPDX-License-Identifier: Apache-2.0
// Runs the steps of one node for `hvdray up`: each as a task of the node script, or as a copy and
// the task that records it, with what is told of it. Pure.
#ifndef HVDRAY_CLUSTER_UP_STEP_RUNNER_H_
#define HVDRAY_CLUSTER_UP_STEP_RUNNER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/types.h"
#include "cluster/up/cluster_driver.h"
#include "cluster/up/node_steps.h"

namespace hvdray {

/// Always: at most one step runs, next(); each step that began has one outcome once it has ended;
/// next() moves on only behind a step that succeeded, but for SkipTo().
class StepRunner {
 public:
  StepRunner(std::vector<NodeStep> steps, std::vector<std::string> exports)
      : steps_(std::move(steps)), exports_(std::move(exports)) {}

  const std::vector<NodeStep>& steps() const { return steps_; }
  /// Index of the step that runs, or else runs next.
  size_t next() const { return next_; }
  void SkipTo(size_t step) { next_ = step; }

  /// Starts step next(). `is_forced`: also where its container runs already.
  void Begin(NodeEffects& effects, bool is_forced, TimePoint now);
  /// The task of the step has ended. nullopt: the step goes on. Otherwise it is over; not ok: it
  /// failed, which `command`, called again, may mend.
  std::optional<Status> OnDone(NodeEffects& effects, const TaskResult& result,
                               const std::string& command, TimePoint now);
  /// The step is over whatever its task did.
  void End(NodeEffects& effects, const TaskResult& result, const std::string& command,
           TimePoint now);

  /// Of the steps that ran.
  const std::vector<StepOutcome>& outcomes() const { return outcomes_; }
  /// By all steps; nullopt: none was a copy.
  const std::optional<SyncStats>& copied() const { return copied_; }

 private:
  void OnCopied(NodeEffects& effects, const SyncStats& copied);

  const std::vector<NodeStep> steps_;
  const std::vector<std::string> exports_;
  size_t next_ = 0;
  bool is_marking_ = false;  ///< Its files are copied; recording that.
  TimePoint began_{};
  std::optional<SyncStats> step_copied_;
  std::vector<StepOutcome> outcomes_;
  std::optional<SyncStats> copied_;
};

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_UP_STEP_RUNNER_H_
