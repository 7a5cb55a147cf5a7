// SPDX-License-Identifier: Apache-2.0
// The keeper: the agent's parent, which only outlives it. Whatever ends the agent, the keeper then
// kills the agent's processes, removes its control socket and exits with its status.
// docs/adr/0003-keeper-and-cleanup.md.
#ifndef HVDRAY_AGENT_KEEPER_H_
#define HVDRAY_AGENT_KEEPER_H_

#include "base/fd.h"

namespace hvdray {

/// Forks. The parent becomes the keeper and never returns: it exits with the agent's code, or 128+n
/// if signal n killed the agent. The child returns as the agent, in a session without a terminal.
/// The result is a lifeline: it reads EOF once the keeper is dead. Call before starting threads, a
/// loop, or opening descriptors that the keeper must not hold. Errors: kOutOfResources, kSystem;
/// then there is no keeper.
Result<UniqueFd> ForkKeeper();

/// Lifelines of an agent with a front: a process that stands in for the agent as the caller's
/// child.
struct ApartLifelines {
  UniqueFd keeper;  ///< Reads EOF once the keeper is dead.
  UniqueFd front;   ///< Reads EOF once the front is dead.
};

/// For an agent that a Ray actor starts. Ray kills the actor's process group and the actor's own
/// children, and no others, so the keeper must be neither. The calling process becomes the front
/// (forwards signals, exits with the agent's code); its child becomes the keeper, in a session of
/// its own; the keeper's child returns as the agent, in the caller's process group. If only the
/// keeper dies, the front waits for the agent to end and then sweeps. Errors: as ForkKeeper().
Result<ApartLifelines> ForkKeeperApart();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_KEEPER_H_
