// SPDX-License-Identifier: Apache-2.0
// The states of a gang and of its workers, and the valid transitions. Values only.
#ifndef HVDRAY_LAUNCHER_DRIVER_STATES_H_
#define HVDRAY_LAUNCHER_DRIVER_STATES_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/types.h"

namespace hvdray {

enum class GangState : uint8_t {
  kConnecting,  ///< Waiting for the agents of all hosts with workers.
  kStarting,    ///< Generation sent; some workers not reported as started yet.
  kRunning,     ///< All workers reported as started.
  kFailing,     ///< A worker failed; the others have a moment to end by themselves.
  kStopping,    ///< StopGeneration sent; waiting for GenerationStopped of every host.
  kFinished,
};
constexpr bool IsTerminal(GangState s) { return s == GangState::kFinished; }
/// True if the transition is valid; no state follows itself.
bool CanFollow(GangState from, GangState to);
/// The name in logs, events and traces.
std::string_view NameOf(GangState state);

enum class WorkerState : uint8_t {
  kPending,   ///< No generation sent yet.
  kStarting,  ///< Sent to its agent.
  kRunning,
  kStopping,  ///< Its agent was told to stop it.
  kExited,
  kFailedToStart,
  kLost,  ///< Lost with its agent; exit status unknown.
};
constexpr bool IsTerminal(WorkerState s) { return s >= WorkerState::kExited; }
bool CanFollow(WorkerState from, WorkerState to);
std::string_view NameOf(WorkerState state);

/// One process of a roster, numbered from 0 in start order. Never reused; its rank may change from
/// generation to generation.
using WorkerId = uint32_t;
inline constexpr WorkerId kNoWorker = ~WorkerId{0};

/// One change of state, for --trace, --events and the log.
struct StateChange {
  TimePoint when;
  Generation generation = 0;
  int rank = -1;  ///< -1: the gang's own state.
  std::string_view from;
  std::string_view to;
};
/// Called synchronously; empty: nobody listens.
using StateChangeFn = std::function<void(const StateChange&)>;

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_STATES_H_
