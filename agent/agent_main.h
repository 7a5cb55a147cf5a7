// SPDX-License-Identifier: Apache-2.0
// The per-host program: hvdray-agent, or `hvdray agent`, which runs the same function.
#ifndef HVDRAY_AGENT_AGENT_MAIN_H_
#define HVDRAY_AGENT_AGENT_MAIN_H_

namespace hvdray {

/// Speaks the agent protocol (docs/protocol.md) on descriptors 0 and 1 until the launcher says Bye
/// or the link is lost. The calling process becomes the keeper; the agent is its child. Returns the
/// exit code: 0, 2 (usage), 125 (link lost), 128+n after signal n. Call before starting threads.
int AgentMain(int argc, char** argv);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_MAIN_H_
