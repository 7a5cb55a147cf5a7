// An agent on a Ray node, as child of an actor: it dials the job's driver. docs/protocol.md.
#ifndef HVDRAY_AGENT_DIALLED_AGENT_H_
#define HVDRAY_AGENT_DIALLED_AGENT_H_

#include "agent/dial_options.h"

namespace hvdray {

/// Reads the job's key, one line of 64 hexadecimal digits, from stdin, which then has to stay open:
/// at its end, at the raylet's death and at the link's end the workers are stopped in order. The
/// calling process becomes the front (see keeper.h). Returns the exit code: 0, 125, 128+n after
/// signal n. Only before there are threads.
int RunDialledAgent(const DialOptions& options);

}  // namespace hvdray

#endif  // HVDRAY_AGENT_DIALLED_AGENT_H_
