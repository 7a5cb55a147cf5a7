// SSH by the library, under the plain names of a job's hosts.
#ifndef HVDRAY_CMD_LIBRARY_SHELL_H_
#define HVDRAY_CMD_LIBRARY_SHELL_H_

#include <memory>

#include "base/blocking_pool.h"
#include "cluster/remote_shell.h"
#include "cluster/remote_stderr.h"
#include "cmd/ssh_options.h"
#include "launcher/job/job_spec.h"

namespace hvdray {

/// `hosts` may gain more while the shell lives. kNotSupported for what only the system's ssh can
/// do. The others outlive it.
std::unique_ptr<RemoteShell> MakeLibraryShell(Loop& loop, BlockingPool& pool, const JobSpec& spec,
                                              const HostsByName& hosts, RemoteStderr& errors);

}  // namespace hvdray

#endif  // HVDRAY_CMD_LIBRARY_SHELL_H_
