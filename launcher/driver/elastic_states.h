// The states of an elastic job and which may follow which, as one table that documents are drawn
// from. Values only.
#ifndef HVDRAY_LAUNCHER_DRIVER_ELASTIC_STATES_H_
#define HVDRAY_LAUNCHER_DRIVER_ELASTIC_STATES_H_

#include <cstdint>
#include <span>
#include <string_view>

namespace hvdray {

enum class ElasticState : uint8_t {
  kGathering,   ///< Waits for the hosts of the first generation.
  kRunning,     ///< The gang trains and is as large as it should be.
  kJoining,     ///< The gang trains; newcomers start and import.
  kCalling,     ///< The gang trains; rank 0 is told, again and again, that it has to meet.
  kMeeting,     ///< A member waits for its new rank, or is lost; the others are awaited.
  kShort,       ///< All that live wait; there are fewer slots than min_np.
  kGate,        ///< All that live wait for newcomers; nobody is released before they are there.
  kRestarting,  ///< Gang mode: all workers are being stopped, to be started anew.
  kStopping,    ///< The job ends; hosts report that nothing is left.
  kFinished,
};
constexpr bool IsTerminal(ElasticState s) { return s == ElasticState::kFinished; }
/// Members train: none has come to meet, none was lost.
constexpr bool IsTraining(ElasticState s) {
  return s == ElasticState::kRunning || s == ElasticState::kJoining || s == ElasticState::kCalling;
}

/// One arrow of the state chart. `why` is what a reader needs, half a line.
struct ElasticTransition {
  ElasticState from;
  ElasticState to;
  std::string_view why;
};
/// All arrows; each pair once. The driver makes no other.
std::span<const ElasticTransition> ElasticTransitions();

bool CanFollow(ElasticState from, ElasticState to);
std::string_view NameOf(ElasticState state);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_DRIVER_ELASTIC_STATES_H_
