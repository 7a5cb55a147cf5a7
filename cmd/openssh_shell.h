// SPDX-License-Identifier: Apache-2.0
// The system's ssh, under the plain names of a job's hosts.
#ifndef HVDRAY_CMD_OPENSSH_SHELL_H_
#define HVDRAY_CMD_OPENSSH_SHELL_H_

#include <memory>

#include "base/blocking_pool.h"
#include "cluster/command_shell.h"
#include "cluster/remote_shell.h"
#include "cluster/remote_transport.h"
#include "cmd/ssh_options.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// How the system's ssh is called for this host. `policy`: of its keys.
OpensshOptions OpensshOptionsOf(const JobSpec& spec, const HostSlots& host, HostKeyPolicy policy);

/// `hosts` may gain more while the shell lives. New host keys are accepted, unless the option or
/// what `ssh -G` tells of the host says otherwise; left alone, ssh would ask. The others outlive
/// it. Errors, besides those of MakeCommandShell(): kSpecInvalid when ssh -G does not like the
/// configuration.
std::unique_ptr<RemoteShell> MakeOpensshShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              const HostsByName& hosts, RemoteStderr& errors);

}  // namespace hvdray

#endif  // HVDRAY_CMD_OPENSSH_SHELL_H_
