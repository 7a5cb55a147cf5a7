// SPDX-License-Identifier: Apache-2.0
// The variables that tell a worker its place: Horovod's and torchrun's. The agent sets them, and
// --print-plan shows them. Pure.
#ifndef HVDRAY_WIRE_SLOT_ENVIRONMENT_H_
#define HVDRAY_WIRE_SLOT_ENVIRONMENT_H_

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "wire/message.h"

namespace hvdray {

/// How many threads a worker's libraries start. MKL and OpenBLAS read the first where their own is
/// unset, but not in every build.
inline constexpr std::array<std::string_view, 3> kThreadNames = {
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"};

using EnvironmentEntry = std::pair<std::string, std::string>;

/// Returns the variables of one worker, in a fixed order. They override the rest of its
/// environment. rendezvous_port: the agent's listener for this worker. Ports that are 0 and
/// interfaces and addresses that are empty are unknown, as in a plan, and left out, as are the
/// kept_variables. Source: the
/// variables that horovodrun sets (horovod/runner/gloo_run.py); torchrun's list, with a store that
/// rank 0 opens itself.
std::vector<EnvironmentEntry> SlotEnvironment(const wire::StartGeneration& start,
                                              const wire::WorkerSlot& slot, std::string_view job_id,
                                              uint16_t rendezvous_port);

}  // namespace hvdray

#endif  // HVDRAY_WIRE_SLOT_ENVIRONMENT_H_
