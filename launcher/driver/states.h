// The states of a gang and of its workers, and which may follow which. Values only.
#ifndef HVDRAY_LAUNCHER_DRIVER_STATES_H_
#define HVDRAY_LAUNCHER_DRIVER_STATES_H_

#include <cstdint>
#include <functional>
#include <string_view>

#include "base/types.h"

namespace hvdray {

enum class GangState : uint8_t {
  kConnecting,  ///< Waits for the agents of all hosts that get workers.
  kStarting,    ///< Generation sent; some workers have not been reported yet.
  kRunning,     ///< Every worker was reported.
  kFailing,     ///< A worker has failed; the others have a moment to end by themselves.
  kStopping,    ///< StopGeneration sent; waits for GenerationStopped of every host.
  kFinished,
};
constexpr bool IsTerminal(GangState s) { return s == GangState::kFinished; }
bool CanFollow(GangState from, GangState to);
std::string_view NameOf(GangState state);

enum class WorkerState : uint8_t {
  kPending,   ///< No generation was sent.
  kStarting,  ///< Sent to its agent.
  kRunning,
  kStopping,  ///< Its host was told to stop the generation.
  kExited,
  kFailedToStart,
  kLost,  ///< With its agent; how it ended is not known.
};
constexpr bool IsTerminal(WorkerState s) { return s >= WorkerState::kExited; }
bool CanFollow(WorkerState from, WorkerState to);
std::string_view NameOf(WorkerState state);

/// One change of state, for --trace, --events and the log.
struct StateChange {
  TimePoint when;
  Generation generation = 0;
  int rank = -1;  ///< -1: the gang.
  std::string_view from;
  std::string_view to;
};
using StateChangeFn = std::function<void(const StateChange&)>;

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_STATES_H_
