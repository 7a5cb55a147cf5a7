// SPDX-License-Identifier: Apache-2.0
// The states of an elastic job and the transitions between them, as one table that also feeds the
// chart in docs/elastic.md. Values only.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_STATES_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_STATES_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace hvdray {

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
std::string_view NameOf(ElasticState state);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_STATES_H_
