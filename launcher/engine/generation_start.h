// From a plan to what its hosts are told: the welcome, the probe of their network, the message that
// starts a generation on each. Pure.
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

GangPolicy GangPolicyOf(const JobSpec& spec, const PlanPlace& place = {});

wire::Welcome WelcomeOf(const LaunchPlan& plan);

/// The interface of each host of the plan, by its index; facts: as many as hosts. Errors:
/// kNoUsableInterface.
Result<std::vector<NicChoice>> ChooseNics(const LaunchPlan& plan,
                                          std::span<const wire::HostFacts> facts);

/// A host on which workers are to be started.
struct StartSite {
  const NicChoice& nic;
  bool is_remote = false;
  const std::string& worker_folder;  ///< Where they start; empty: as the plan says.
};
/// What the message says beside places, master and environment: interfaces, command, folder.
void CompleteStart(const LaunchPlan& plan, const StartSite& site, wire::StartGeneration* message);

/// Ranks as workers know them: by plan.place.worker_host_names.
std::vector<RankInfo> RanksForWorkers(const LaunchPlan& plan, std::vector<RankInfo> ranks);

/// One message for each host of the plan, by its index. Interfaces and MASTER_ADDR are those of
/// `nics`; workers start in the host's one of `worker_folders`, where that is not empty (both: as
/// many as hosts).
std::vector<wire::StartGeneration> MakeStartMessages(const LaunchPlan& plan,
                                                     const effect::StartGeneration& start,
                                                     std::span<const NicChoice> nics,
                                                     std::span<const std::string> worker_folders);

/// As many as hosts of the plan, each.
std::vector<ProbedHost> ProbedHostsOf(const LaunchPlan& plan, std::span<const NicChoice> nics,
                                      std::span<const wire::HostFacts> facts);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
