// Gets in: which keys are tried in which order, and what to say when none is taken.
#ifndef HVDRAY_CLUSTER_SSH_SSH_AUTH_H_
#define HVDRAY_CLUSTER_SSH_SSH_AUTH_H_

#include "base/status.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_questions.h"
#include "cluster/ssh/ssh_session.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// Tries, in this order: the key file that the command line names, the agent's keys that belong to
/// the other files, the agent's other keys (unless IdentitiesOnly), the files themselves; then, if
/// somebody can be asked, the encrypted files that the host would take, keyboard-interactive and
/// password, each with at most settings.max_questions. What the settings do not allow is not tried;
/// password_veto keeps back all that the host could use elsewhere. Keys that libssh2 can't sign
/// with are left out; if there is one, nobody is asked: the system's ssh may get in without. What a
/// person takes to answer, and waits for a turn, is added to the limit. Blocks. Errors:
/// kAuthenticationFailed, naming what was tried and what was not, why; kNotSupported instead when a
/// key was left out that the system's ssh could use; kFileUnreadable or kSpecInvalid for a key file
/// that the command line names and that can't be used; kHostBusy when the host did not wait for an
/// answer; those of the connection, kHandshakeFailed of them only if nothing has been refused.
Status AuthenticateSsh(SshSession& session, const SshSettings& settings, SshQuestions& questions,
                       SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_AUTH_H_
