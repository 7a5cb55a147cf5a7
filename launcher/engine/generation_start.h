// SPDX-License-Identifier: Apache-2.0
// Turns a plan into messages to its hosts: the welcome, the probe of their network, the start of a
// generation. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
#define HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "launcher/driver/events.h"
#include "launcher/driver/gang_driver.h"
#include "launcher/engine/launcher.h"
#include "launcher/engine/neighbour_probe.h"
#include "launcher/job/nic_select.h"
#include "wire/message.h"

namespace hvdray {

/// The driver's settings from a resolved spec; see PlanPlace for jobs inside a cluster.
GangPolicy GangPolicyOf(const JobSpec& spec, const PlanPlace& place = {});

/// AgentSet fills in the host's name.
wire::Welcome WelcomeOf(const LaunchPlan& plan);

/// Chooses the interface of each host of the plan, by host index; `facts`: one for each host.
/// Errors: kNoUsableInterface.
Result<std::vector<NicChoice>> ChooseNics(const LaunchPlan& plan,
                                          std::span<const wire::HostFacts> facts);

/// A host on which to start workers.
struct StartSite {
  const NicChoice& nic;
  bool is_remote = false;
  const std::string& worker_directory;  ///< Where they start; empty: as in the plan.
};
/// Fills in interfaces, command and working directory; the caller fills in ranks, master and
/// environment.
void CompleteStart(const LaunchPlan& plan, const StartSite& site, wire::StartGeneration* message);

/// `ranks` with the host names that workers see: plan.place.worker_host_names.
std::vector<RankInfo> RanksForWorkers(const LaunchPlan& plan, std::vector<RankInfo> ranks);

/// One message for each host of the plan, by host index. Interfaces and MASTER_ADDR come from
/// `nics`; workers start in the host's entry of `worker_directories` unless that is empty (both:
/// one for each host).
std::vector<wire::StartGeneration> MakeStartMessages(
    const LaunchPlan& plan, const effect::StartGeneration& start, std::span<const NicChoice> nics,
    std::span<const std::string> worker_directories);

/// The hosts as NeighbourProbe wants them. `nics`, `facts`: one for each host of the plan.
std::vector<ProbedHost> ProbedHostsOf(const LaunchPlan& plan, std::span<const NicChoice> nics,
                                      std::span<const wire::HostFacts> facts);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
