// Two ways to the same hosts: the second is for those that the first does not support.
#ifndef HVDRAY_CLUSTER_FALLBACK_SHELL_H_
#define HVDRAY_CLUSTER_FALLBACK_SHELL_H_

#include <memory>

#include "cluster/remote_shell.h"

namespace hvdray {

/// Runs by `first`; a host that it answers with kNotSupported is run by `second`. All other errors
/// are final. Both outlive the shell.
std::unique_ptr<RemoteShell> MakeFallbackShell(RemoteShell& first, RemoteShell& second);

}  // namespace hvdray

#endif  // HVDRAY_CLUSTER_FALLBACK_SHELL_H_
