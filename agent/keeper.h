// The keeper: parent of the agent, and all it does is outlive it. Whatever ends the agent, the
// keeper kills what the agent has started and passes its status on. docs/adr/0003.
#ifndef HVDRAY_AGENT_KEEPER_H_
#define HVDRAY_AGENT_KEEPER_H_

#include "base/fd.h"

namespace hvdray {

/// Splits this process: the parent becomes the keeper and never returns from here (it exits with
/// the agent's code, or 128+n when signal n ended it); the child returns and goes on as the agent,
/// in a session that has no terminal. The result is a lifeline: it reads EOF once the keeper is
/// dead. Call it before there are threads, a loop, or descriptors that the keeper must not hold.
/// Errors: kOutOfResources, kSystem; there is no keeper then.
Result<UniqueFd> ForkKeeper();

/// Of an agent that has a front: a process that stands for it where it was called from.
struct ApartLifelines {
  UniqueFd keeper;  ///< Reads EOF once the keeper is dead.
  UniqueFd front;   ///< Likewise of the front.
};

/// For an agent that a Ray actor has started. Ray kills the actor's process group and the actor's
/// own children, and no others, so the keeper is neither: the calling process becomes the front
/// (exits with the agent's code, passes signals on), its child the keeper, in a session of its own,
/// and the keeper's child returns from here as the agent, in the caller's process group. When only
/// the keeper dies, the front waits for the agent's orderly end and sweeps. Errors: as
/// ForkKeeper().
Result<ApartLifelines> ForkKeeperApart();

}  // namespace hvdray

#endif  // HVDRAY_AGENT_KEEPER_H_
