// SPDX-License-Identifier: Apache-2.0
// The variables that tell a worker its place: Horovod's and torchrun's. The one list of them: the
// agent sets what it gives, --print-plan shows it. Pure.
#ifndef HVDRAY_WIRE_SLOT_ENVIRONMENT_H_
#define HVDRAY_WIRE_SLOT_ENVIRONMENT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/message.h"

namespace hvdray {

using EnvironmentEntry = std::pair<std::string, std::string>;

/// Of one worker, in a fixed order. They beat whatever else the worker's environment has.
/// rendezvous_port: of this worker's listener in its agent. A port of 0 and an empty interface or
/// address are not known yet and left out (a plan); in a job all are known.
/// Source: Horovod spec 1.4; torchrun's list, with a store that rank 0 itself opens.
std::vector<EnvironmentEntry> SlotEnvironment(const wire::StartGeneration& start,
                                              const wire::WorkerSlot& slot, std::string_view job_id,
                                              uint16_t rendezvous_port);

}  // namespace hvdray

#endif  // HVDRAY_WIRE_SLOT_ENVIRONMENT_H_
