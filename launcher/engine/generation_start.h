// Builds the message that starts a generation on each host. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
#define HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_

#include <span>
#include <vector>

#include "base/result.h"
#include "launcher/driver/events.h"
#include "launcher/driver/gang_driver.h"
#include "launcher/engine/launcher.h"
#include "launcher/wire/message.h"

namespace hvdray {

GangPolicy GangPolicyOf(const JobSpec& spec);

/// One message for each host of the plan, by its index. Interfaces and MASTER_ADDR follow from
/// `facts` (as many as hosts). Errors: kNoUsableInterface, kSpecInvalid for a named interface that
/// a host lacks.
Result<std::vector<wire::StartGeneration>> MakeStartMessages(
    const LaunchPlan& plan, const effect::StartGeneration& start,
    std::span<const wire::HostFacts> facts);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_GENERATION_START_H_
