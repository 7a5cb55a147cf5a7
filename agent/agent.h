// The per-host program: hvdray-agent, and `hvdray agent`, which is the same by another door.
#ifndef HVDRAY_AGENT_AGENT_H_
#define HVDRAY_AGENT_AGENT_H_

namespace hvdray {

/// Speaks the agent protocol (docs/protocol.md) on descriptors 0 and 1 until the launcher says Bye
/// or the link is lost. The calling process becomes the keeper; the agent is its child. Returns the
/// exit code: 0, 2 (usage), 125 (link lost), 128+n after signal n. Only before there are threads.
int AgentMain(int argc, char** argv);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_AGENT_H_
