// SPDX-License-Identifier: Apache-2.0
// Logs in: decides which methods to try in which order, and explains a failure.
#ifndef HVDRAY_CLUSTER_SSH_SSH_AUTH_H_
#define HVDRAY_CLUSTER_SSH_SSH_AUTH_H_

#include "base/status.h"
#include "cluster/ssh/ssh_limit.h"
#include "cluster/ssh/ssh_questions.h"
#include "cluster/ssh/ssh_session.h"
#include "cluster/ssh/ssh_target.h"

namespace hvdray {

/// Tries, in this order: the key file of the command line, the agent's keys that belong to the
/// other files, the agent's other keys (unless IdentitiesOnly), the files themselves. Then, if it
/// can ask the user: the encrypted files that the host would accept, keyboard-interactive and
/// password, each with at most settings.max_questions questions. Skips what the settings do not
/// allow; password_veto holds back everything that the host could use elsewhere. Skips keys that
/// libssh2 can't sign with; if there is one, it asks no questions, since the system's ssh may log
/// in without. Adds the time for turns and answers to the limit. Blocks. Errors:
/// kAuthenticationFailed, which names what was tried, what was skipped and why; kNotSupported
/// instead when the system's ssh could use a skipped key; kFileUnreadable or kSpecInvalid for an
/// unusable key file of the command line; kHostBusy when the host did not wait for an answer; those
/// of the connection, but kHandshakeFailed only if nothing has been refused.
Status AuthenticateSsh(SshSession& session, const SshSettings& settings, SshQuestions& questions,
                       SshLimit& limit);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_SSH_SSH_AUTH_H_
