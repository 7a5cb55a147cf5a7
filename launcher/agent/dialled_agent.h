// An agent on a Ray node, as child of an actor or as a Ray job: it dials the job's driver.
// docs/protocol.md.
#ifndef HVDRAY_LAUNCHER_AGENT_DIALLED_AGENT_H_
#define HVDRAY_LAUNCHER_AGENT_DIALLED_AGENT_H_

#include "base/secret.h"
#include "launcher/agent/dial_options.h"

namespace hvdray {

/// Reads the job's key, one line of 64 hexadecimal digits, from stdin, which then has to stay open:
/// at its end, at the raylet's death and at the link's end the workers are stopped in order. The
/// calling process becomes the front (see keeper.h). Returns the exit code: 0, 125, 128+n after
/// signal n. Only before there are threads.
int RunDialledAgent(const DialOptions& options);

/// The same as the entrypoint of a Ray job of its own: hangs on Ray's supervisor of that job
/// instead of stdin. The driver may have ended long ago, or not begun, and another one may have its
/// port: nobody who answers within options.limit is no error (0, and a line on stderr). key:
/// kTlsKeyBytes bytes.
int RunSeatJob(const DialOptions& options, Secret key);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_AGENT_DIALLED_AGENT_H_
