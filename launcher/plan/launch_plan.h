// SPDX-License-Identifier: Apache-2.0
// From a resolved spec to a plan that can be launched or checked: what `hvdray run` and
// `hvdray check` share.
#ifndef HVDRAY_LAUNCHER_PLAN_LAUNCH_PLAN_H_
#define HVDRAY_LAUNCHER_PLAN_LAUNCH_PLAN_H_

#include <string>

#include "base/types.h"
#include "launcher/engine/launcher.h"

namespace hvdray {

/// A plan with what is known before any option is read: environment, time, current directory, job
/// id, build. `began`: when hvdray was started.
LaunchPlan BeginPlan(TimePoint began);

/// kUsage when this process's directory has been removed, where relative paths lead nowhere.
Status CheckCurrentDirectory(const LaunchPlan& plan);

/// Checks what the options of run say about reaching hosts and about elastic jobs, before anything
/// is opened. Errors: kUsage, kSpecInvalid, kFileUnreadable.
Status CheckOptionsOfRun(const JobSpec& spec);

/// Fills in the ranks and the hosts that have some: others get no agent either. Of an elastic job:
/// its first generation, if spec.hosts is all it ever learns. Looks up names. Errors: those of
/// AssignRanks().
Status Place(LaunchPlan& plan);

/// The command and environment must be small enough for execve. Errors: kEnvironmentTooLarge.
Status CheckExec(const LaunchPlan& plan);

/// Completes a plan that has its spec: hosts, ranks, what is copied; checks what can be checked
/// before anything is started. `command`: "hvdray run", for warnings. `is_shown`: the plan is only
/// printed, from the hosts of the moment.
Status MakePlan(LaunchPlan& plan, std::string_view command, bool is_shown);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_LAUNCH_PLAN_H_
