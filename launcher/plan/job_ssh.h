// SPDX-License-Identifier: Apache-2.0
// The SSH settings of a job in the terms of cluster/ssh, and the system's ssh for its hosts.
#ifndef HVDRAY_LAUNCHER_PLAN_JOB_SSH_H_
#define HVDRAY_LAUNCHER_PLAN_JOB_SSH_H_

#include <map>
#include <memory>
#include <string>

#include "base/blocking_pool.h"
#include "cluster/ssh/ssh_target.h"
#include "cluster/transport/command_shell.h"
#include "cluster/transport/remote_transport.h"
#include "launcher/job/job_spec.h"
#include "launcher/job/placement.h"

namespace hvdray {

/// By their plain names. Hosts of an elastic job are added as they become known.
using HostsByName = std::map<std::string, HostSlots>;

/// Without a host key policy, unless an option gives one: the user's configuration then decides for
/// each host.
SshOverrides ToSshOverrides(const JobSpec& spec);

/// User and port: the host's own, else the job's user.
SshTarget ToSshTarget(const JobSpec& spec, const HostSlots& host);

/// How long connecting may take. Shorter than the job's own limit, because only SSH knows why a
/// connection failed.
Duration SshConnectTimeout(const JobSpec& spec);

/// How to call the system's ssh for this host.
OpensshOptions ToOpensshOptions(const JobSpec& spec, const HostSlots& host,
                                const OpensshNeeds& needs);

/// The same, with what the user's configuration needs. Blocks for one run of `ssh -G`.
OpensshOptions OpensshOptionsFor(const JobSpec& spec, const HostSlots& host);

/// The system's ssh. `hosts` may gain more while the shell lives; it and the others outlive the
/// shell. New host keys are accepted, unless the option or what `ssh -G` says about the host
/// forbids it; without this, ssh would ask. Errors, besides those of MakeCommandShell():
/// kSpecInvalid when ssh -G rejects the configuration.
std::unique_ptr<RemoteShell> MakeOpensshShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              const HostsByName& hosts, RemoteStderr& errors);

}  // namespace hvdray

#endif  // HVDRAY_LAUNCHER_PLAN_JOB_SSH_H_
