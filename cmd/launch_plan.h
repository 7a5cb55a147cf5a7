// SPDX-License-Identifier: Apache-2.0
// From a resolved spec to a plan that can be launched or checked: what `hvdray run` and
// `hvdray check` have in common.
#ifndef HVDRAY_CMD_LAUNCH_PLAN_H_
#define HVDRAY_CMD_LAUNCH_PLAN_H_

#include <span>
#include <string>

#include "cmd/commands.h"
#include "launcher/engine/launcher.h"
#include "launcher/report/run_ending.h"

namespace hvdray {

/// What is known before any option is read: environment, time, current directory, job id, build.
LaunchPlan BeginPlan(const CommandLine& line);

/// What options say about reaching hosts and about elastic jobs, before anything is opened. Errors:
/// kUsage, kSpecInvalid, kFileUnreadable.
Status CheckSupported(const JobSpec& spec);

/// Ranks, and the hosts that get some: others get no agent either. Of an elastic job: those of its
/// first generation, if spec.hosts is all that it ever learns. Looks up names. Errors: those of
/// AssignRanks().
Status Place(LaunchPlan& plan);

/// Of an elastic job, before its source has said anything: the spread; and if no source can ever
/// say more than spec.hosts, those and whether they are remote. No ranks. Looks up names.
void PlaceElastic(LaunchPlan& plan);

/// Whatever execve would refuse on every host. Errors: kEnvironmentTooLarge.
Status CheckExec(const LaunchPlan& plan);

/// --agent-path, or hvdray-agent beside hvdray, wherever that was installed or linked to.
std::string AgentPath(const JobSpec& spec);

/// --verbose, --log-level, --log-json.
void SetUpLog(const JobSpec& spec);
/// Before the options are read: their errors are JSON too where --log-json is among the words.
void SetUpLogEarly(std::span<const std::string> args, const Environment& environment);

/// Writes to stdout and returns `exit_code`; when nobody reads it or it is full, says so in the
/// name of the command and returns the code for that.
int PrintOut(std::string_view command, const std::string& text, int exit_code = 0);

}  // namespace hvdray

#endif  // HVDRAY_CMD_LAUNCH_PLAN_H_
