// SPDX-License-Identifier: Apache-2.0
// The states of a gang, of an elastic job and of their workers, and the valid transitions. Those of
// an elastic job stand in one table, which also feeds the chart in docs/elastic.md. Values only.
#ifndef HVDRAY_LAUNCHER_DRIVER_STATES_H_
#define HVDRAY_LAUNCHER_DRIVER_STATES_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
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
std::string_view Name(GangState state);

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
std::string_view Name(WorkerState state);

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

enum class ElasticState : uint8_t {
  kGathering,   ///< Waiting for the hosts of the first generation.
  kRunning,     ///< The gang trains and is as large as it should be.
  kJoining,     ///< The gang trains; newcomers start and import.
  kCalling,     ///< The gang trains; rank 0 is notified repeatedly to bring it to the barrier.
  kMeeting,     ///< A member waits for its new rank or was lost; waiting for the others.
  kShort,       ///< All living members wait; fewer slots than min_np.
  kGate,        ///< All living members wait for newcomers; none is released before those arrive.
  kRestarting,  ///< Gang mode: stopping all workers to restart them.
  kStopping,    ///< The job ends; waiting for hosts to confirm that nothing is left.
  kFinished,
};
constexpr bool IsTerminal(ElasticState s) { return s == ElasticState::kFinished; }
/// Members train: none waits for a new rank, none was lost.
constexpr bool IsTraining(ElasticState s) {
  return s == ElasticState::kRunning || s == ElasticState::kJoining || s == ElasticState::kCalling;
}

/// One arrow of the state chart. `why`: its reason for the reader, half a line.
struct ElasticTransition {
  ElasticState from;
  ElasticState to;
  std::string_view why;
};
/// All arrows, each pair once. The driver makes no other transition.
std::span<const ElasticTransition> ElasticTransitions();

/// True if ElasticTransitions() has that arrow.
bool CanFollow(ElasticState from, ElasticState to);
/// The name in logs, events and traces.
std::string_view Name(ElasticState state);

/// Marker lines around the chart in a page; WithElasticChart() keeps them.
inline constexpr std::string_view kChartBegin =
    "<!-- chart: begin, from launcher/driver/states.cc by hvdray-gen-cli -->\n";
inline constexpr std::string_view kChartEnd = "<!-- chart: end -->\n";

/// ElasticTransitions() as a Mermaid state diagram in a fenced block of Markdown.
std::string ElasticChart();
/// Replaces what is between the markers of `page` by the chart. Errors: kSpecInvalid unless each
/// marker occurs exactly once, begin before end.
Result<std::string> WithElasticChart(std::string_view page);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_STATES_H_
