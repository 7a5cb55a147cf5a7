// Gets in: which keys are tried in which order, and what to say when none is taken.
#ifndef HVDRAY_CLUSTER_SSH_SSH_AUTH_H_
#define HVDRAY_CLUSTER_SSH_SSH_AUTH_H_

#include "base/status.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_session.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// Tries, in this order: the key file that the command line names, the agent's keys that belong to
/// the other files, the agent's other keys (unless IdentitiesOnly), the files themselves; then,
/// with a prompt, keyboard-interactive and password. Keys that libssh2 can't sign with are left
/// out. Blocks. Errors: kAuthenticationFailed, naming what was tried and what was not, why;
/// kNotSupported instead when a key was left out that the system's ssh could use; kFileUnreadable
/// or kSpecInvalid for a key file that the command line names and that can't be used; those of the
/// connection.
Status AuthenticateSsh(SshSession& session, const SshSettings& settings, const SshPrompt& prompt,
                       const SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_AUTH_H_
