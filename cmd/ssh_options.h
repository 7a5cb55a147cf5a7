// SPDX-License-Identifier: Apache-2.0
// What a job says of SSH, in the words of cluster/ssh. Pure.
#ifndef HVDRAY_CMD_SSH_OPTIONS_H_
#define HVDRAY_CMD_SSH_OPTIONS_H_

#include <map>
#include <string>

#include "cluster/ssh/ssh_target.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// By their plain names. Hosts of an elastic job are added as they become known.
using HostsByName = std::map<std::string, HostSlots>;

/// The policy only where it was given: else what the user's configuration says of a host counts.
SshOverrides SshOverridesOf(const JobSpec& spec);

/// User and port: the host's own, else the job's user.
SshTarget SshTargetOf(const JobSpec& spec, const HostSlots& host);

/// To connect. Shorter than the job's own limit: SSH knows why it got no connection, that does not.
Duration SshConnectTimeoutOf(const JobSpec& spec);

}  // namespace hvdray

#endif  // HVDRAY_CMD_SSH_OPTIONS_H_
