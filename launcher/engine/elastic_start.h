// SPDX-License-Identifier: Apache-2.0
// Turns decisions of an elastic driver into messages to agents: the welcome, and the messages that
// start workers. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_START_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_START_H_

#include <chrono>
#include <map>
#include <span>

#include "launcher/driver/elastic_events.h"
#include "launcher/engine/elastic_host_table.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/elastic_policy.h"
#include "launcher/job/job_spec.h"
#include "wire/message.h"

namespace hvdray {

/// As WelcomeOf(), with what an elastic job's relay needs. AgentSet fills in the host's name.
wire::Welcome ElasticWelcomeOf(const LaunchPlan& plan);

/// One message for each host that gets workers, by its number. `ranks`: the whole generation if all
/// of it is started; empty for newcomers of an unpublished one. Hosts without a chosen interface
/// get no message; the driver handles their workers' missing start.
std::map<int, wire::StartGeneration> ElasticStartMessages(const LaunchPlan& plan,
                                                          const effect::StartWorkers& start,
                                                          std::span<const RankInfo> ranks,
                                                          ElasticHostTable& hosts);

// Turns a resolved spec into the settings of an elastic driver. Pure.

/// `spec`: of an elastic job. Options that are not set take the policy's defaults. `began`: start
/// of the job. The caller checks the result by CheckElasticPolicy().
ElasticPolicy ElasticPolicyOf(const JobSpec& spec, std::chrono::system_clock::time_point began);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_START_H_
