// From what an elastic driver decides to what agents are told: the welcome, and the messages that
// start workers. Pure.
#ifndef HVDRAY_LAUNCHER_ENGINE_ELASTIC_START_H_
#define HVDRAY_LAUNCHER_ENGINE_ELASTIC_START_H_

#include <map>
#include <span>

#include "launcher/driver/elastic_events.h"
#include "launcher/engine/elastic_host_table.h"
#include "launcher/engine/launcher.h"
#include "wire/message.h"

namespace hvdray {

wire::Welcome ElasticWelcomeOf(const LaunchPlan& plan);

/// One message for each host that gets workers, by its number. `ranks`: the whole generation, when
/// all of it is started; empty for newcomers of one that is not published yet. Hosts whose
/// interface was not chosen get none; their workers then miss their start, which the driver sees
/// to.
std::map<int, wire::StartGeneration> ElasticStartMessages(const LaunchPlan& plan,
                                                          const effect::StartWorkers& start,
                                                          std::span<const RankInfo> ranks,
                                                          ElasticHostTable& hosts);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_ENGINE_ELASTIC_START_H_
