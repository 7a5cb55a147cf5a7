// SPDX-License-Identifier: Apache-2.0
// Turns a plan and the driver's decisions into messages to agents: the welcome, and the order that
// starts workers. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
#define HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_

#include <map>
#include <span>
#include <string>
#include <vector>

#include "launcher/driver/events.h"
#include "launcher/engine/host_table.h"
#include "launcher/engine/launcher.h"
#include "launcher/job/job_spec.h"
#include "wire/message.h"

namespace hvdray {

/// Of a fixed job. AgentSet fills in the host's name.
wire::Welcome ToWelcome(const LaunchPlan& plan);

/// `ranks` with the host names that workers see: plan.place.worker_host_names.
std::vector<RankInfo> RanksForWorkers(const LaunchPlan& plan, std::vector<RankInfo> ranks);

/// The imports of plan.spec.preload for workers that come later.
wire::Warm WarmOrder(const LaunchPlan& plan, const JobHost& host);

/// One message for each host that gets workers, by its number. `ranks`: the whole generation if all
/// of it is started; empty for newcomers of an unpublished one. Hosts without an agent or a chosen
/// interface get no message; the driver handles their workers' missing start.
std::map<int, wire::StartGeneration> StartMessages(const LaunchPlan& plan,
                                                   const effect::StartWorkers& start,
                                                   std::span<const RankInfo> ranks,
                                                   HostTable& hosts);

/// What a user is told of the threads that workers get in these messages; empty: nothing, since
/// none was chosen or no host is shared by several workers.
std::string ThreadsNotice(const std::map<int, wire::StartGeneration>& messages);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
